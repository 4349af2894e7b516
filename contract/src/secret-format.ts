/**
 * Secrets as text for programs: the formats of an export whose references are resolved. The SDK has a copy of this file, with
 * which the command line writes the secrets of several environments as the service writes those of one.
 */
import { describeLeftOut, type LeftOut } from './variable-name.ts'

export type Entry = { readonly key: string; readonly value: string }

/** A format cannot hold a secret. The message names the key and never quotes the value. */
export class FormatError extends Error {
  override readonly name = 'FormatError'
}

const refuseValue = (format: string, key: string, reason: string) =>
  new FormatError(`${format} cannot hold the value of ${key}: ${reason}`)

export const refuseKey = (format: string, key: string, reason: string) =>
  new FormatError(`${format} cannot hold the key ${key}: ${reason}`)

/** Control characters (\p{Cc} is far slower), line and paragraph separators, byte order mark and noncharacters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

/** Escapes are computed in advance: there are few such characters, but a value may be full of them. */
const spelled: ReadonlyMap<string, string> = new Map(
  Array.from({ length: 0xa0 }, (_, code) => code)
    .concat(0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff)
    .map((code) => [String.fromCharCode(code), `\\u${code.toString(16).padStart(4, '0')}`]),
)

/** Escapes characters that editors and parsers may drop or change. */
function escapeUnprintable(text: string): string {
  return text.replace(unprintable, (character) => spelled.get(character) ?? character)
}

/**
 * Resolved values in a dotenv file are for other programs: bash (`source`), Node (`--env-file`), npm's dotenv and
 * python-dotenv read them alike if any spelling makes them. A value that one of them misreads never changes the entries
 * around it, and bash executes none.
 */
function* writeDotenv(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) {
    if (!isReadAlike(key, value)) {
      yield `# bash, Node, dotenv and python-dotenv do not all read the next value alike: ${key}\n`
    }
    yield `${key}=${spellResolved(value)}\n`
  }
}

const bare = /^[A-Za-z0-9_./:@%+,=-]*$/

/** Some readers take a backslash at the end for an escaped quote and read on into the next entry. npm's dotenv changes CR. */
const singleHolds = (value: string) => !/['\0\r]|\\$/.test(value)

/** In double quotes, bash expands `$` and backquotes, and each reader knows other escapes. */
const doubleHolds = (value: string) => !/["`\0\r]|\$[\w{([*@#?$!-]|\\(?:[\\"'$`abfnrtv\n]|u[\dA-Fa-f]{4}|$)/.test(value)

/** python-dotenv expands this in any quotes, and decodes this one escape in single quotes. */
const changedByPython = /\$\{[^}:]*(?::-[^}]*)?\}|\\\\/

/** To bash, an assignment to any other name is a command. */
const isVariable = (key: string) => /^[A-Za-z_]\w*$/.test(key)

/** Whether the four readers get the value of an entry. */
const isReadAlike = (key: string, value: string): boolean =>
  isVariable(key) && (singleHolds(value) ? !changedByPython.test(value) : doubleHolds(value))

/** The text has no references: an import takes `${` in it as text. */
export function spellResolved(value: string): string {
  if (bare.test(value)) return value
  if (singleHolds(value)) return `'${value}'`
  return doubleHolds(value) ? `"${value}"` : spellEscaped(value.replace(/[\\"$`]/g, '\\$&'))
}

/** A line of its own: the readers that do not know an escape get another value, but no other entry. */
export function spellEscaped(text: string): string {
  const written = text
    .replace(/\\\\$/, '\\u005c')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
  return `"${escapeUnprintable(written)}"`
}

/** For `eval` or `.` in any POSIX shell: uses single quotes, inside which only the closing quote is special. */
function* writeShell(entries: readonly Entry[], leftOut: readonly LeftOut[]): Generator<string> {
  for (const one of leftOut) yield `# Left out: ${describeLeftOut([one])}\n`
  for (const { key, value } of entries) yield `export ${requireVariable(key)}=${quoteForShell(key, value)}\n`
}

function requireVariable(key: string): string {
  if (isVariable(key)) return key
  throw refuseKey('shell', key, 'a variable is named with letters, digits and _, and does not begin with a digit')
}

function quoteForShell(key: string, value: string): string {
  if (value.includes('\0')) throw refuseValue('shell', key, 'it contains a NUL character')
  return `'${value.replaceAll("'", "'\\''")}'`
}

/** For `docker run --env-file`: a line is KEY=value to its very end, spaces and quotes included; nothing is escaped. */
function* writeDocker(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${key}=${requireOneLine(key, value)}\n`
}

function requireOneLine(key: string, value: string): string {
  if (value.includes('\0')) throw refuseValue('docker', key, 'it contains a NUL character')
  if (/[\r\n]/.test(value)) throw refuseValue('docker', key, 'it contains a line break')
  return value
}

/** Every value is quoted, so that no reader trims it or guesses where it ends. */
function* writeCsv(entries: readonly Entry[]): Generator<string> {
  yield 'key,value\r\n'
  for (const { key, value } of entries) yield `${key},"${value.replaceAll('"', '""')}"\r\n`
}

/** Written by hand: an object would put number-like keys first and lose "__proto__". */
function* writeJson(entries: readonly Entry[]): Generator<string> {
  yield '{'
  let start = '\n'
  for (const { key, value } of entries) {
    yield `${start}  ${JSON.stringify(key)}: ${JSON.stringify(value)}`
    start = ',\n'
  }
  yield entries.length === 0 ? '}\n' : '\n}\n'
}

function* writeYaml(entries: readonly Entry[]): Generator<string> {
  if (entries.length === 0) yield '{}\n'
  for (const { key, value } of entries) yield `${quoteKeyForYaml(key)}: ${quoteForYaml(value)}\n`
}

/** Quotes on one line with JSON escapes, all of which YAML supports. This avoids folding and indentation. */
export function quoteForYaml(text: string): string {
  return escapeUnprintable(JSON.stringify(text))
}

/** Unquoted if every parser reads the key as a string; keys such as NO or 1e3 are quoted. */
export function quoteKeyForYaml(key: string): string {
  const isPlain = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(key)
  return isPlain ? key : quoteForYaml(key)
}

/** Terraform variables: quoted HCL strings, in which `${` and `%{` would begin a template. */
function* writeTfvars(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${requireIdentifier(key)} = ${quoteForTerraform(key, value)}\n`
}

function requireIdentifier(key: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return key
  throw refuseKey('tfvars', key, 'an identifier does not begin with a digit or a hyphen')
}

function quoteForTerraform(key: string, value: string): string {
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

export type TextFormat = 'dotenv' | 'shell' | 'json' | 'yaml' | 'csv' | 'docker' | 'tfvars'

/** Lines are generated lazily; iterating throws a FormatError. `leftOut` is what a file for a shell names in comments. */
type Writer = (entries: readonly Entry[], leftOut: readonly LeftOut[]) => Iterable<string>

export const writers: Readonly<Record<TextFormat, Writer>> = {
  dotenv: writeDotenv,
  shell: writeShell,
  json: writeJson,
  yaml: writeYaml,
  csv: writeCsv,
  docker: writeDocker,
  tfvars: writeTfvars,
}
