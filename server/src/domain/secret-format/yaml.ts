/**
 * One flat mapping whose values keep the text they are written with: `yes`, `1.0` and `2026-01-01` are secrets, not
 * booleans, numbers and dates. The failsafe schema is what makes them so.
 */
import { maxSecretsPerRequest } from '@coffer/contract/secret'
import {
  Composer,
  type CST,
  isAlias,
  isMap,
  isNode,
  isScalar,
  Lexer,
  LineCounter,
  type Pair,
  Parser,
  type Scalar,
} from 'yaml'
import { type Entry, escapeUnprintable, type FoundEntry, nameKey, refuseLine, tooManyEntries } from './entry.ts'

/** What aliases may add up to; a small file of them could otherwise stand for gigabytes. */
const maxAliasedLength = 8 * 1024 * 1024
/** Far beyond 10,000 entries with comments; the library makes several objects of each. */
const maxLexemes = 200_000
/** A flat mapping needs 4. Without a limit a few megabytes of "[" end the process. */
const maxDepth = 8
/** A value of 64 KiB, with room for escapes and indentation. */
const maxLexemeLength = 1024 * 1024
const escapes = /\\(?:[0abefnrtvN_LP "/\\\t\n]|\r\n|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8})/g

type Walk = { readonly anchors: Map<string, string>; aliasedLength: number }

export function* readYaml(content: string): Generator<FoundEntry> {
  const lines = new LineCounter()
  const lineOf = (node: unknown) => lines.linePos((isNode(node) ? node.range?.[0] : undefined) ?? 0).line

  const contents = compose(content, lines)
  if (contents === null) return
  if (!isMap(contents)) throw refuseLine(lineOf(contents), 'expected a mapping of keys to values')

  const walk: Walk = { anchors: new Map(), aliasedLength: 0 }
  for (const pair of contents.items) yield readPair(pair, walk, lineOf(pair.key))
}

export function* writeYaml(entries: readonly Entry[]): Generator<string> {
  if (entries.length === 0) yield '{}\n'
  for (const { key, value } of entries) yield `${quoteKey(key)}: ${quote(value)}\n`
}

/** On one line, with JSON's escapes, all of which YAML has too: no folding, no indentation, nothing to guess. */
export function quote(text: string): string {
  return escapeUnprintable(JSON.stringify(text))
}

/** Plain where every parser sees a string; a key such as NO or 1e3 is quoted. */
export function quoteKey(key: string): string {
  const isPlain = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(key) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(key)
  return isPlain ? key : quote(key)
}

function compose(content: string, lines: LineCounter) {
  // The library's own search for duplicate keys compares every key with every other.
  const composer = new Composer({ schema: 'failsafe', uniqueKeys: false })
  const [document, another] = composer.compose(parse(content, lines), true, content.length)

  const error = document?.errors[0]
  if (error !== undefined) throw refuseLine(lines.linePos(error.pos[0]).line, describe(error.code))
  if (another !== undefined) throw refuseLine(lines.linePos(another.range[0]).line, 'expected one document only')
  return document?.contents ?? null
}

/** As Parser.parse() does it, but with limits: the library goes on after an error, and each costs more than its text. */
function* parse(content: string, lines: LineCounter): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine)
  const refuseHere = (problem: string) => refuseLine(lines.linePos(parser.offset).line, problem)
  let lexemes = 0
  let colons = 0
  lines.addNewLine(0)

  for (const lexeme of new Lexer().lex(content)) {
    const problem = findProblem(lexeme)
    if (problem !== undefined) throw refuseHere(problem)
    // Before the library has made its objects of them all.
    if (lexeme === ':') colons += 1
    if (colons > maxSecretsPerRequest) throw refuseHere(tooManyEntries)
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') throw refuseHere(describe('UNEXPECTED_TOKEN'))
      if (token.type === 'directive') throw refuseHere('directives are not allowed')
      yield token
    }
    lexemes += 1
    if (parser.stack.length > maxDepth) throw refuseHere('this is nested too deeply')
    if (lexemes > maxLexemes) throw refuseHere('the file has too many entries, comments and blank lines')
  }
  yield* parser.end()
}

function findProblem(lexeme: string): string | undefined {
  if (lexeme.length > maxLexemeLength) return 'the text that begins here is too long'
  const mark = lexeme[0]
  if (mark === '!' && lexeme !== '!!str') return 'tags are not allowed'
  if (mark !== '"' && mark !== "'") return undefined

  const bare = mark === '"' ? lexeme.replace(escapes, '') : lexeme
  if (bare.length === 1 || !bare.endsWith(mark)) return 'the quote that opens this text is never closed'
  return mark === '"' && bare.includes('\\') ? 'a quoted text holds an escape that YAML does not have' : undefined
}

/** In our words, as the library's message quotes the file. */
function describe(code: string): string {
  if (code === 'TAB_AS_INDENT') return 'a tab is used as indentation; use spaces'
  return 'this is not valid YAML'
}

function readPair(pair: Pair, walk: Walk, line: number): FoundEntry {
  if (!isScalar(pair.key)) throw refuseLine(line, 'expected a key that is plain text')
  const key = readScalar(pair.key, walk)
  if (key === '<<') throw refuseLine(line, 'merge keys are not allowed')
  return { line, key, value: readValue(pair.value, key, walk, line) }
}

function readValue(node: unknown, key: string, walk: Walk, line: number): string {
  if (node === null) return ''
  if (isAlias(node)) return readAlias(node.source, walk, line)
  if (!isScalar(node)) throw refuseLine(line, `${nameKey(key)} holds a list or a mapping; only text can be a value`)
  if (isNull(node)) throw refuseLine(line, `${nameKey(key)} has no value; quote it if this text is the value`)
  return readScalar(node, walk)
}

function readScalar(node: Scalar, walk: Walk): string {
  const text = String(node.value ?? '')
  if (node.anchor !== undefined) walk.anchors.set(node.anchor, text)
  return text
}

function readAlias(anchor: string, walk: Walk, line: number): string {
  const text = walk.anchors.get(anchor)
  if (text === undefined) throw refuseLine(line, 'an alias must name the anchor of an earlier text')
  walk.aliasedLength += text.length
  if (walk.aliasedLength > maxAliasedLength) throw refuseLine(line, 'the aliases stand for more than 8 MiB')
  return text
}

function isNull(node: Scalar): boolean {
  return node.type === 'PLAIN' && node.tag === undefined && /^(?:~|null|Null|NULL)$/.test(String(node.value))
}
