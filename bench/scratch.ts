/** Temporary folders, removed on exit. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folders: string[] = []
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-bench-'))
  removeAtExit(folder)
  return folder
}

export function removeAtExit(folder: string): void {
  folders.push(folder)
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}
