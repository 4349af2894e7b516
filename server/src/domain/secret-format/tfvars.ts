/** Terraform variables: quoted HCL strings, in which `${` and `%{` would begin a template. */
import { type Entry, escapeUnprintable, refuseKey, refuseValue } from './entry.ts'

export function writeTfvars(entries: readonly Entry[]): string {
  return entries.map(({ key, value }) => `${requireIdentifier(key)} = ${quote(key, value)}\n`).join('')
}

function requireIdentifier(key: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return key
  throw refuseKey('tfvars', key, 'an identifier does not begin with a digit or a hyphen')
}

function quote(key: string, value: string): string {
  // Terraform normalises every string, escaped or not, and would so silently hand out another value.
  if (value.normalize('NFC') !== value) {
    throw refuseValue('tfvars', key, 'it contains characters that Terraform would compose into others (Unicode NFC)')
  }
  const escaped = value
    .replace(/[\\"]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
    .replace(/[$%]+\{?/g, escapeTemplate)
  return `"${escapeUnprintable(escaped)}"`
}

/** Only the mark at the brace is doubled: those before it are spelled out, as HCL would pair them up from the left. */
function escapeTemplate(marks: string): string {
  if (!marks.endsWith('{')) return marks
  const earlier = marks.slice(0, -2).replaceAll('$', '\\u0024').replaceAll('%', '\\u0025')
  return `${earlier}${marks.at(-2)}${marks.slice(-2)}`
}
