/** For `docker run --env-file`: a line is KEY=value to its very end, spaces and quotes included; nothing is escaped. */
import { type Entry, refuseValue } from './entry.ts'

export function* writeDocker(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${key}=${requireOneLine(key, value)}\n`
}

function requireOneLine(key: string, value: string): string {
  if (value.includes('\0')) throw refuseValue('docker', key, 'it contains a NUL character')
  if (/[\r\n]/.test(value)) throw refuseValue('docker', key, 'it contains a line break')
  return value
}
