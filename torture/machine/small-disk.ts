/** A small file system of its own, which a case can fill. */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Trial } from '../case.ts'

export function unableToMount(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root to mount a tmpfs'
  const folder = mkdtempSync(join(tmpdir(), 'coffer-torture-'))
  const isMounted = mount(folder, 1)
  if (isMounted) unmount(folder)
  rmSync(folder, { recursive: true, force: true })
  return isMounted ? undefined : 'no tmpfs can be mounted here'
}

/** Mounted until the end of the trial. */
export function mountSmallDisk(trial: Trial, megabytes: number): string {
  const folder = trial.createFolder()
  chmodSync(folder, 0o755)
  if (!mount(folder, megabytes)) throw new Error('mounting the tmpfs failed')
  trial.onEnd(() => unmount(folder))
  chmodSync(folder, 0o755)
  return folder
}

/** Returns the file to remove to make room again. */
export function fillDisk(folder: string, freeBytes: number): string {
  const ballast = join(folder, 'ballast')
  const { bavail, bsize } = statfsSync(folder)
  writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - freeBytes)))
  return ballast
}

function mount(folder: string, megabytes: number): boolean {
  return (
    spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder], { stdio: 'ignore' }).status === 0
  )
}

function unmount(folder: string): void {
  if (spawnSync('umount', [folder], { stdio: 'ignore' }).status !== 0)
    spawnSync('umount', ['-l', folder], { stdio: 'ignore' })
}
