/**
 * Dotenv as it is really written: there is no standard, so this reads what the common parsers agree on. References
 * such as ${X} stay as they are: to resolve them is the service's matter.
 */
import { countLineBreaks } from './cursor.ts'
import {
  type Entry,
  escapeUnprintable,
  type FoundEntry,
  maxWrittenLength,
  pause,
  refuseLine,
  tooLong,
} from './entry.ts'

type Span = { readonly end: number; readonly next: number }
type QuotedValue = { readonly value: string; readonly end: number; readonly lineBreaks: number }

const linesPerPiece = 5_000

export function* readDotenv(content: string): Generator<FoundEntry | typeof pause> {
  let offset = 0
  let line = 1

  while (offset < content.length) {
    const span = findLineEnd(content, offset)
    const text = content.slice(offset, span.end)
    const firstLine = line
    line += 1
    if (line % linesPerPiece === 0) yield pause
    if (text.length > maxWrittenLength) throw refuseLine(firstLine, tooLong)
    if (isBlankOrComment(text)) {
      offset = span.next
      continue
    }

    const equals = text.indexOf('=')
    if (equals === -1) throw refuseLine(firstLine, 'expected KEY=value')
    const key = trimBlanks(withoutExport(trimBlanks(text.slice(0, equals))))
    const quoted = readQuoted(content, offset + equals + 1, firstLine)
    if (quoted === undefined) {
      yield { line: firstLine, key, value: readUnquoted(text.slice(equals + 1)) }
      offset = span.next
      continue
    }

    line += quoted.lineBreaks
    const rest = findLineEnd(content, quoted.end)
    if (!isBlankOrComment(content.slice(quoted.end, rest.end))) {
      throw refuseLine(line - 1, `only a comment may follow the quote that closes the value begun on line ${firstLine}`)
    }
    yield { line: firstLine, key, value: quoted.value }
    offset = rest.next
  }
}

export function* writeDotenv(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${key}=${quote(value)}\n`
}

/**
 * A single quote, a control character but the tab and the line feed, and a backslash at the end: other parsers take that, doubled
 * or not, for an escaped quote and read on into the next key.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: single quotes cannot hold them.
const needsEscapes = /['\u0000-\u0008\u000b-\u001f\u007f-\u009f]|\\$/

/** Nearly every parser knows \n, also one that reads line by line, but many no other escape: of JSON they would read a piece. */
const isPlainLines = (value: string) => value.includes('\n') && !/[\\"$`]/.test(value)

/** Single quotes where they can hold the value: no parser expands what is in them, and `$` survives a shell. */
function quote(value: string): string {
  if (/^[A-Za-z0-9_./:@%+,=-]*$/.test(value)) return value
  if (!needsEscapes.test(value) && !isPlainLines(value)) return `'${value}'`

  const escaped = value
    .replace(/[\\"$`]/g, '\\$&')
    .replace(/\\\\$/, '\\u005c')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
  return `"${escapeUnprintable(escaped)}"`
}

function readQuoted(content: string, from: number, line: number): QuotedValue | undefined {
  let start = from
  while (isBlank(content[start])) start += 1
  const mark = content[start]
  if (mark !== "'" && mark !== '"' && mark !== '`') return undefined

  const end = mark === '"' ? findDoubleQuote(content, start + 1, line) : content.indexOf(mark, start + 1)
  if (end === -1) throw refuseLine(line, 'the quote that opens this value is never closed')
  const inside = content.slice(start + 1, end)
  return { value: mark === '"' ? decodeEscapes(inside) : inside, end: end + 1, lineBreaks: countLineBreaks(inside) }
}

function findDoubleQuote(content: string, from: number, line: number): number {
  const special = /["\\]/g
  special.lastIndex = from
  for (let match = special.exec(content); match !== null; match = special.exec(content)) {
    if (match[0] === '"') return match.index
    if (match.index - from > maxWrittenLength) throw refuseLine(line, tooLong)
    special.lastIndex += 1
  }
  return -1
}

/** A backslash before anything else stays: a Windows path or a regular expression is not an escape. */
function decodeEscapes(text: string): string {
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|([nrt\\"$`]))/g, (_, hex: string | undefined, letter: string) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
    if (letter === 'n') return '\n'
    if (letter === 'r') return '\r'
    return letter === 't' ? '\t' : letter
  })
}

/** A `#` begins a comment only after white space, so that colours, passwords and URL fragments keep theirs. */
function readUnquoted(text: string): string {
  const comment = text.search(/[ \t]#/)
  return trimBlanks(comment === -1 ? text : text.slice(0, comment))
}

function withoutExport(text: string): string {
  return text.replace(/^export[ \t]+/, '')
}

function isBlankOrComment(text: string): boolean {
  const trimmed = trimBlanks(text)
  return trimmed === '' || trimmed.startsWith('#')
}

function findLineEnd(content: string, from: number): Span {
  const lineBreak = /\r\n|\r|\n/g
  lineBreak.lastIndex = from
  const match = lineBreak.exec(content)
  return match === null
    ? { end: content.length, next: content.length }
    : { end: match.index, next: match.index + match[0].length }
}

/** Not trim(): that would also take a no-break space or a byte order mark, which are part of the value. */
function trimBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (isBlank(text[start])) start += 1
  while (end > start && isBlank(text[end - 1])) end -= 1
  return text.slice(start, end)
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t'
}
