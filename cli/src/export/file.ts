/** Writes a file that holds values: mode 0600, in one step, and never over another file unless asked to. */
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CliError } from '../error.ts'

export function writePrivateFile(path: string, text: string, { isForced }: { readonly isForced: boolean }): void {
  const target = realPathOf(path)
  refuseOther(path, target, isForced)
  const fresh = join(dirname(target), `.${basename(target)}.${process.pid}.tmp`)
  try {
    const file = openSync(fresh, 'wx', 0o600)
    try {
      writeAll(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    if (isForced) renameSync(fresh, target)
    // Fails if the file has appeared meanwhile, which a rename would replace.
    else linkSync(fresh, target)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw code === 'EEXIST' ? exists(path) : new CliError('failure', `${path} cannot be written (${code}).`)
  } finally {
    rmSync(fresh, { force: true })
  }
}

function writeAll(file: number, text: string): void {
  const bytes = Buffer.from(text, 'utf8')
  for (let offset = 0; offset < bytes.length; ) offset += writeSync(file, bytes, offset)
}

/** The file that a link leads to: replacing the link itself would surprise. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

/** A rename onto /dev/stdout would replace the device. */
function refuseOther(path: string, target: string, isForced: boolean): void {
  const found = statSync(target, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isFile()) throw new CliError('usage', `${path} is not a regular file.`, 'leave out --output to use stdout')
  if (!isForced) throw exists(path)
}

const exists = (path: string) => new CliError('usage', `${path} exists already.`, '--force')
