/** The text that a person edits: dotenv lines, as the service imports them. Every value survives writing and reading. */
import { visible } from '../output/table.ts'

export type Line = {
  readonly key: string
  readonly value: string
  /** Shown as a comment. */
  readonly note: string
}

/** Never quotes the text: it may be a value. */
export class TextError extends Error {}

export function writeText(heading: readonly string[], lines: readonly Line[]): string {
  const comments = (text: string) => text.split('\n').map((line) => `# ${visible(line)}`.trimEnd())
  const entries = lines.flatMap(({ key, value, note }) => [
    ...(note === '' ? [] : ['', ...comments(note)]),
    `${key}=${quote(value)}`,
  ])
  return `${[...heading.flatMap(comments), '', ...entries].join('\n')}\n`
}

/** Characters that an editor hides, changes or takes for the end of a line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]/g

function quote(value: string): string {
  const isSeen = value.search(unseen) < 0
  if (isSeen && /^[^\s'"`#]*$/.test(value)) return value
  // In single quotes, a reference would be text.
  if (isSeen && !/'|\$\{/.test(value)) return `'${value}'`
  const escaped = value
    .replace(/[\\"]/g, '\\$&')
    .replace(unseen, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return `"${escaped}"`
}

export function parseText(content: string): Map<string, string> {
  // A carriage return of a value is written as an escape, so that any other one is of the editor.
  const text = content.replace(/^\ufeff/, '').replaceAll('\r\n', '\n')
  const found = new Map<string, string>()
  for (let offset = 0; offset < text.length; ) {
    const lineEnd = endOfLine(text, offset)
    const line = text.slice(offset, lineEnd)
    if (/^[ \t\r]*(#|$)/.test(line)) {
      offset = lineEnd + 1
      continue
    }
    const fail = (problem: string): never => {
      throw new TextError(`Line ${text.slice(0, offset).split('\n').length}: ${problem}`)
    }
    const [head, key] = /^[ \t]*(?:export[ \t]+)?([A-Za-z0-9_-]{1,255})[ \t]*=[ \t]*/.exec(line) ?? []
    if (head === undefined || key === undefined) return fail('expected KEY=value.')
    if (found.has(key)) fail(`${key} is there twice.`)
    const start = offset + head.length
    const quoted = readQuoted(text, start)
    if (quoted === 'open') fail('the quote that opens this value is never closed.')
    else if (quoted === undefined) {
      found.set(key, readPlain(text.slice(start, lineEnd)))
      offset = lineEnd + 1
    } else {
      const end = endOfLine(text, quoted.end)
      if (!/^[ \t\r]*(#|$)/.test(text.slice(quoted.end, end))) fail('only a comment may follow the closing quote.')
      found.set(key, quoted.value)
      offset = end + 1
    }
  }
  return found
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

/** A `#` begins a comment only after white space. */
const readPlain = (text: string): string => text.replace(/(^|[ \t])#.*$/s, '').replace(/[ \t\r]+$/, '')

type Quoted = { readonly value: string; readonly end: number }

function readQuoted(text: string, start: number): Quoted | 'open' | undefined {
  const mark = text[start]
  if (mark !== "'" && mark !== '"' && mark !== '`') return undefined
  const pattern = mark === '"' ? /(?:[^"\\]|\\.)*/sy : mark === "'" ? /[^']*/y : /[^`]*/y
  pattern.lastIndex = start + 1
  const inside = pattern.exec(text)?.[0] ?? ''
  const end = start + 1 + inside.length
  if (text[end] !== mark) return 'open'
  const value = mark === '"' ? decode(inside) : mark === "'" ? inside.replaceAll('${', () => '$${') : inside
  return { value, end: end + 1 }
}

/** A backslash before any other character stays: it belongs to a Windows path or a regular expression. */
const decode = (text: string): string =>
  text.replace(/\\(?:u([0-9A-Fa-f]{4})|(\$\{|[nrt\\"$`]))/g, (_, hex: string | undefined, letter: string) =>
    hex !== undefined
      ? String.fromCharCode(Number.parseInt(hex, 16))
      : ({ n: '\n', r: '\r', t: '\t', '${': '$${' }[letter] ?? letter),
  )
