/** Terraform variables: quoted HCL strings, in which `${` and `%{` would begin a template. */
import { type Entry, escapeUnprintable, refuseKey, refuseValue } from './entry.ts'

export function* writeTfvars(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${requireIdentifier(key)} = ${quote(key, value)}\n`
}

function requireIdentifier(key: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return key
  throw refuseKey('tfvars', key, 'an identifier does not begin with a digit or a hyphen')
}

function quote(key: string, value: string): string {
  if (mayChange.test(value)) requireNormal(key, value)
  const escaped = value
    .replace(/[\\"]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
    .replace(/[$%]+\{?/g, escapeTemplate)
  return `"${escapeUnprintable(escaped)}"`
}

/** What is all below the first combining mark is normal as it is. */
const mayChange = /[\u0300-\uffff]/
/** Looked for where a row of them begins, and nowhere in it. */
const manyMarks = /(?<!\p{M})\p{M}{128}/u

/** Terraform normalises every string, escaped or not, and would so silently hand out another value. */
function requireNormal(key: string, value: string): void {
  // To put them in order takes the square of their number.
  if (manyMarks.test(value)) throw refuseValue('tfvars', key, 'it contains 128 combining marks in a row')
  if (value.normalize('NFC') !== value) {
    throw refuseValue('tfvars', key, 'it contains characters that Terraform would compose into others (Unicode NFC)')
  }
}

/** Only the mark at the brace is doubled: those before it are spelled out, as HCL would pair them up from the left. */
function escapeTemplate(marks: string): string {
  if (!marks.endsWith('{')) return marks
  const earlier = marks.slice(0, -2).replaceAll('$', '\\u0024').replaceAll('%', '\\u0025')
  return `${earlier}${marks.at(-2)}${marks.slice(-2)}`
}
