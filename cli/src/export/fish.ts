/** For `source` in fish, which reads neither the quotes nor the `export` of POSIX shells alike. */
import { cannotHold, type Entry } from './entry.ts'

export const fishScript = (entries: readonly Entry[]): string =>
  entries.map(([key, value]) => `set -gx ${requireVariable(key)} ${quote(key, value)}\n`).join('')

function requireVariable(key: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) return key
  throw cannotHold('fish', key, 'a variable is named with letters, digits and _, and does not begin with a digit')
}

function quote(key: string, value: string): string {
  if (value.includes('\0')) throw cannotHold('fish', key, 'its value contains a NUL character')
  return `'${value.replace(/[\\']/g, '\\$&')}'`
}
