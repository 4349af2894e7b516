/** One flat object, parsed by hand: JSON.parse hides duplicate keys, rewrites numbers and quotes input in errors. */
import { type Cursor, skip, startOf } from './cursor.ts'
import { type FoundEntry, maxWrittenLength, nameKey, refuseLine, tooLong } from './entry.ts'

export function* readJson(content: string): Generator<FoundEntry> {
  const cursor = startOf(content)
  skipSpace(cursor)
  if (!take(cursor, '{')) throw refuseLine(cursor.line, 'expected a JSON object of keys and values')
  skipSpace(cursor)
  if (!take(cursor, '}')) yield* readMembers(cursor)
  skipSpace(cursor)
  if (cursor.offset < content.length) throw refuseLine(cursor.line, 'expected nothing after the closing brace')
}

function* readMembers(cursor: Cursor): Generator<FoundEntry> {
  for (;;) {
    skipSpace(cursor)
    const line = cursor.line
    const key = readString(cursor)
    if (key === undefined) throw refuseLine(line, 'expected a key in double quotes')
    skipSpace(cursor)
    if (!take(cursor, ':')) throw refuseLine(cursor.line, 'expected a colon after the key')
    skipSpace(cursor)
    yield { line, key, value: readValue(cursor, key) }
    skipSpace(cursor)
    if (take(cursor, '}')) return
    if (!take(cursor, ',')) throw refuseLine(cursor.line, 'expected a comma or a closing brace')
  }
}

/** A number or a boolean is kept as it is written: 1.0 stays "1.0". */
function readValue(cursor: Cursor, key: string): string {
  const { content, offset, line } = cursor
  if (content[offset] === '{') throw refuseLine(line, `${nameKey(key)} holds an object; only text can be a value`)
  if (content[offset] === '[') throw refuseLine(line, `${nameKey(key)} holds a list; only text can be a value`)
  if (content.startsWith('null', offset)) throw refuseLine(line, `${nameKey(key)} is null; write "" if it is empty`)

  const text = readString(cursor) ?? readWord(cursor)
  if (text === undefined) throw refuseLine(line, `expected a value for ${nameKey(key)}`)
  return text
}

function readWord(cursor: Cursor): string | undefined {
  const word = /(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false)(?![\w.+-])/y
  word.lastIndex = cursor.offset
  const text = word.exec(cursor.content)?.[0]
  cursor.offset += text?.length ?? 0
  return text
}

function readString(cursor: Cursor): string | undefined {
  const { content, offset, line } = cursor
  if (content[offset] !== '"') return undefined

  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them raw in a string, so they end the search.
  const special = /["\\\u0000-\u001f]/g
  special.lastIndex = offset + 1
  for (let match = special.exec(content); match !== null; match = special.exec(content)) {
    if (match[0] === '"') {
      cursor.offset = special.lastIndex
      return decodeString(content.slice(offset, cursor.offset), line)
    }
    if (match.index - offset > maxWrittenLength) throw refuseLine(line, tooLong)
    if (match[0] !== '\\') throw refuseLine(line, 'a string contains a line break or a control character; escape it')
    special.lastIndex += 1
  }
  throw refuseLine(line, 'the quote that opens this string is never closed')
}

function decodeString(quoted: string, line: number): string {
  try {
    return String(JSON.parse(quoted))
  } catch {
    throw refuseLine(line, 'a string contains an escape that JSON does not allow')
  }
}

function skipSpace(cursor: Cursor): void {
  skip(cursor, /[ \t\r\n]*/y)
}

function take(cursor: Cursor, character: string): boolean {
  if (cursor.content[cursor.offset] !== character) return false
  cursor.offset += 1
  return true
}
