/**
 * Dotenv has no standard, so this reads what the common parsers agree on: a reference such as ${X} is one without quotes
 * and in double quotes, and literal text in single quotes and after a backslash. dotenv-spelling.ts writes stored values.
 */
import type { Entry } from '@coffer/contract/secret-format'
import { writeLiteral } from '../reference/reference.ts'
import { countLineBreaks } from './cursor.ts'
import { spellStored } from './dotenv-spelling.ts'
import { type FoundEntry, maxWrittenLength, pause, type ReadOptions, refuseLine, tooLong } from './entry.ts'

type Span = { readonly end: number; readonly next: number }
type QuotedValue = { readonly value: string; readonly end: number; readonly lineBreaks: number }

const linesPerPiece = 5_000
/** The longest value, with room for its key, its quotes and a comment. */
const maxLineLength = maxWrittenLength + 1_024

/** Base64 of at least a key and a tag. */
const encryptedByDotenvx = /^encrypted:[A-Za-z0-9+/]{64,}={0,2}$/

const encrypted =
  'this value is encrypted by dotenvx: run `dotenvx decrypt` and import the file then; an import as literal text would store it as it is'

export function* readDotenv(content: string, { isLiteral }: ReadOptions): Generator<FoundEntry | typeof pause> {
  let offset = 0
  let line = 1

  while (offset < content.length) {
    const span = findLineEnd(content, offset)
    const text = content.slice(offset, span.end)
    const firstLine = line
    line += 1
    if (line % linesPerPiece === 0) yield pause
    if (text.length > maxLineLength) throw refuseLine(firstLine, tooLong)
    if (isBlankOrComment(text)) {
      offset = span.next
      continue
    }

    const equals = text.indexOf('=')
    if (equals === -1) throw refuseLine(firstLine, 'expected KEY=value')
    const key = trimBlanks(withoutExport(trimBlanks(text.slice(0, equals))))
    const quoted = readQuoted(content, offset + equals + 1, firstLine, isLiteral)
    const value = quoted?.value ?? readUnquoted(text.slice(equals + 1))
    if (!isLiteral && encryptedByDotenvx.test(value)) throw refuseLine(firstLine, encrypted)
    if (quoted === undefined) {
      yield { line: firstLine, key, value }
      offset = span.next
      continue
    }

    line += quoted.lineBreaks
    const rest = findLineEnd(content, quoted.end)
    if (!isBlankOrComment(content.slice(quoted.end, rest.end))) {
      throw refuseLine(line - 1, `only a comment may follow the quote that closes the value begun on line ${firstLine}`)
    }
    yield { line: firstLine, key, value }
    offset = rest.next
  }
}

export function* writeStored(entries: readonly Entry[]): Generator<string> {
  for (const { key, value } of entries) yield `${key}=${spellStored(value)}\n`
}

function readQuoted(content: string, from: number, line: number, isLiteral: boolean): QuotedValue | undefined {
  let start = from
  while (isBlank(content[start])) start += 1
  const mark = content[start]
  if (mark !== "'" && mark !== '"' && mark !== '`') return undefined

  const end = mark === '"' ? findDoubleQuote(content, start + 1, line) : content.indexOf(mark, start + 1)
  if (end === -1) throw refuseLine(line, 'the quote that opens this value is never closed')
  const inside = content.slice(start + 1, end)
  const value = mark === '"' ? decodeEscapes(inside, isLiteral) : mark === "'" ? readSingle(inside, isLiteral) : inside
  return { value, end: end + 1, lineBreaks: countLineBreaks(inside) }
}

/** With `isLiteral`, the values of all entries become literals later. */
const readSingle = (inside: string, isLiteral: boolean) => (isLiteral ? inside : writeLiteral(inside))

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

/** A backslash before any other character stays: it belongs to a Windows path or a regular expression. */
function decodeEscapes(text: string, isLiteral: boolean): string {
  const escaped = /\\(?:u([0-9A-Fa-f]{4})|(\$\{)|([nrt\\"$`]))/g
  return text.replace(escaped, (_, hex: string | undefined, brace: string | undefined, letter: string) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
    if (brace !== undefined) return isLiteral ? brace : `$${brace}`
    if (letter === 'n') return '\n'
    if (letter === 'r') return '\r'
    return letter === 't' ? '\t' : letter
  })
}

/** A `#` begins a comment only after white space: colours, passwords and URL fragments contain one too. */
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

/** Not trim(): it would also remove a no-break space or a byte order mark, which are part of the value. */
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
