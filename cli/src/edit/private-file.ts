/** A file for an editor, in memory if possible, that no way of ending the command leaves behind. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'

export type PrivateFile = {
  readonly path: string
  /** Undefined if the editor has saved something other than UTF-8. */
  read(): string | undefined
  write(text: string): void
  wipe(): void
}

const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

export function openPrivateFile(ctx: Context): PrivateFile {
  const folder = createFolder(ctx)
  const path = join(folder, 'secrets.env')
  const end = (signal: NodeJS.Signals) => process.exit(128 + constants.signals[signal])
  const wipe = () => {
    process.off('exit', wipe)
    for (const signal of endingSignals) process.off(signal, end)
    wipeFolder(folder)
  }
  process.on('exit', wipe)
  for (const signal of endingSignals) process.on(signal, end)
  return {
    path,
    read: () => {
      const bytes = readFileSync(path)
      const text = bytes.toString('utf8')
      return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined
    },
    write: (text) => writeFileSync(path, text, { mode: 0o600 }),
    wipe,
  }
}

const tmpfsType = 0x01021994

/** mkdtemp makes folders that only the user can enter. */
function createFolder({ env, out }: Context): string {
  const inMemory = [env.XDG_RUNTIME_DIR, isTmpfs('/dev/shm') ? '/dev/shm' : undefined]
  for (const base of inMemory) {
    try {
      if (base) return mkdtempSync(join(base, 'coffer-'))
    } catch {
      // Not there, or not ours.
    }
  }
  const base = env.TMPDIR || tmpdir()
  try {
    const folder = mkdtempSync(join(base, 'coffer-'))
    out.warn(`The file that you edit is in ${base}, which may be on a disk: there is no folder in memory.`)
    return folder
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new CliError('failure', `${base} cannot be written (${code}).`, 'set TMPDIR')
  }
}

function isTmpfs(path: string): boolean {
  try {
    return statfsSync(path).type === tmpfsType
  } catch {
    return false
  }
}

/** Also removes the backups and swap files of the editor. */
function wipeFolder(folder: string): void {
  try {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) overwrite(join(folder, name))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function overwrite(path: string): void {
  try {
    const found = statSync(path)
    if (found.isFile()) writeFileSync(path, Buffer.alloc(found.size), { flag: 'r+' })
  } catch {
    // It is removed in any case.
  }
}
