/** For `docker run --env-file`: a line is KEY=value to its very end, spaces and quotes included; nothing is escaped. */
import { type Entry, refuseValue } from './entry.ts'

/** Docker reads a line into a buffer of 64 KiB, its end included, and refuses the whole file for a longer one. */
const maxLineBytes = 64 * 1024

export function* writeDocker(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield requireShort(key, `${key}=${requireOneLine(key, value)}\n`)
}

function requireOneLine(key: string, value: string): string {
  if (value.includes('\0')) throw refuseValue('docker', key, 'it contains a NUL character')
  if (/[\r\n]/.test(value)) throw refuseValue('docker', key, 'it contains a line break')
  return value
}

function requireShort(key: string, line: string): string {
  if (Buffer.byteLength(line) <= maxLineBytes) return line
  throw refuseValue('docker', key, 'with its key it is longer than the 64 KiB that Docker reads as a line')
}
