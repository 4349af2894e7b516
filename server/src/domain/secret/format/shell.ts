/** For `eval` or `.` in any POSIX shell: uses single quotes, inside which only the closing quote is special. */
import { describeLeftOut } from '@coffer/contract/variable-name'
import { type Entry, refuseKey, refuseValue, type WriteOptions } from './entry.ts'

export function* writeShell(entries: readonly Entry[], { leftOut = [] }: WriteOptions): Generator<string> {
  for (const one of leftOut) yield `# Left out: ${describeLeftOut([one])}\n`
  for (const { key, value } of entries) yield `export ${requireVariableName(key)}=${quote(key, value)}\n`
}

function requireVariableName(key: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) return key
  throw refuseKey('shell', key, 'a variable is named with letters, digits and _, and does not begin with a digit')
}

function quote(key: string, value: string): string {
  if (value.includes('\0')) throw refuseValue('shell', key, 'it contains a NUL character')
  return `'${value.replaceAll("'", "'\\''")}'`
}
