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

/** Text without any of these characters is always in NFC: the first combining mark is U+0300. */
const mayChange = /[\u0300-\uffff]/
/** The lookbehind tries each run of marks only at its start, which keeps the search linear. */
const manyMarks = /(?<!\p{M})\p{M}{128}/u

/** Terraform normalises every string to NFC, escaped or not, and would silently change the value. */
function requireNormal(key: string, value: string): void {
  // Normalising a run of combining marks takes quadratic time.
  if (manyMarks.test(value)) throw refuseValue('tfvars', key, 'it contains 128 combining marks in a row')
  if (value.normalize('NFC') !== value) {
    throw refuseValue('tfvars', key, 'it contains characters that Terraform would compose into others (Unicode NFC)')
  }
}

/** Doubles only the mark before the brace. Earlier marks become \u escapes, as HCL would pair marks from the left. */
function escapeTemplate(marks: string): string {
  if (!marks.endsWith('{')) return marks
  const earlier = marks.slice(0, -2).replaceAll('$', '\\u0024').replaceAll('%', '\\u0025')
  return `${earlier}${marks.at(-2)}${marks.slice(-2)}`
}
