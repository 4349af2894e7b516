/**
 * One flat mapping of keys to text. The failsafe schema keeps values as they are written: `yes`, `1.0` and `2026-01-01`
 * are text, not booleans, numbers and dates.
 */
import { maxSecretsPerRequest } from '@coffer/contract/secret'
import {
  Composer,
  type CST,
  type Document,
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
import { type FoundEntry, nameKey, pause, refuseLine, tooLong, tooManyEntries } from './entry.ts'

/** Maximum total length of aliased text. Without it, a small file of aliases could expand to gigabytes. */
const maxAliasedLength = 8 * 1024 * 1024
/** Far more than 10,000 entries with comments need. The library creates several objects for each lexeme. */
const maxLexemes = 200_000
/** Lexemes between two pauses. The library takes a few microseconds for each. */
const lexemesPerPiece = 1_000
/** From this many on, entries are composed while the rest of the mapping is still being parsed. */
const entriesPerPart = 200
/** Lexemes between two `:` or `,`: far more than an entry needs. The library creates an error for each extra one. */
const maxNodesPerEntry = 100
/** A flat mapping needs 4. Without a limit, a few megabytes of "[" would crash the process. */
const maxDepth = 8
/** A value of 64 KiB, with room for escapes and indentation. */
const maxLexemeLength = 1024 * 1024
const escapes = /\\(?:[0abefnrtvN_LP "/\\\t\n]|\r\n|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8})/g

type Walk = { readonly anchors: Map<string, string>; aliasedLength: number }

export function* readYaml(content: string): Generator<FoundEntry | typeof pause> {
  const lines = new LineCounter()
  const lineOf = (node: unknown) => lines.linePos((isNode(node) ? node.range?.[0] : undefined) ?? 0).line
  const walk: Walk = { anchors: new Map(), aliasedLength: 0 }

  for (const contents of compose(content, lines)) {
    if (contents === pause) {
      yield pause
      continue
    }
    if (contents === null) continue
    if (!isMap(contents)) throw refuseLine(lineOf(contents), 'expected a mapping of keys to values')
    for (const pair of contents.items) yield readPair(pair, walk, lineOf(pair.key))
  }
}

/** Yields the contents of the one document in parts, because the library composes each part without a pause. */
function* compose(content: string, lines: LineCounter): Generator<Composed['contents'] | typeof pause> {
  // The library's own search for duplicate keys is quadratic: it compares every key with every other.
  const options = { schema: 'failsafe', uniqueKeys: false } as const
  const composer = new Composer(options)
  let documents = 0

  function* take(found: Iterable<Composed>): Generator<Composed['contents']> {
    for (const document of found) {
      const [error] = document.errors
      if (error !== undefined) throw refuseLine(lines.linePos(error.pos[0]).line, describe(error.code))
      if (++documents > 1) throw refuseLine(lines.linePos(document.range[0]).line, 'expected one document only')
      yield document.contents
    }
  }

  for (const step of parse(content, lines)) {
    if (step === pause) yield pause
    else if ('part' in step) {
      yield* take(new Composer(options).compose([step.part]))
      documents -= 1
    } else yield* take(composer.next(step))
  }
  yield* take(composer.end(true, content.length))
}

type Composed = Document.Parsed
type Step = CST.Token | { readonly part: CST.Document } | typeof pause

/** Like Parser.parse(), but with limits: the library continues after errors, and each costs more than its text. */
function* parse(content: string, lines: LineCounter): Generator<Step> {
  const parser = new Parser(lines.addNewLine)
  const refuseHere = (problem: string) => refuseLine(lines.linePos(parser.offset).line, problem)
  const counted = { lexemes: 0, ':': 0, ',': 0, nodes: 0 }
  lines.addNewLine(0)

  for (const lexeme of new Lexer().lex(content)) {
    const problem = findProblem(lexeme)
    if (problem !== undefined) throw refuseHere(problem)
    if (lexeme === ':' || lexeme === ',') {
      counted[lexeme] += 1
      counted.nodes = 0
      // Refused here, before the library has created objects for all entries.
      if (counted[lexeme] > maxSecretsPerRequest) throw refuseHere(tooManyEntries)
    } else if (!/^[\s#]/.test(lexeme)) counted.nodes += 1
    if (counted.nodes > maxNodesPerEntry) throw refuseHere(describe('UNEXPECTED_TOKEN'))
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') throw refuseHere(describe('UNEXPECTED_TOKEN'))
      if (token.type === 'directive') throw refuseHere('directives are not allowed')
      yield token
    }
    counted.lexemes += 1
    if (parser.stack.length > maxDepth) throw refuseHere('this is nested too deeply')
    if (counted.lexemes > maxLexemes) throw refuseHere('the file has too many entries, comments and blank lines')
    if (counted.lexemes % lexemesPerPiece > 0) continue
    const part = takeFinished(parser)
    if (part !== undefined) yield { part }
    yield pause
  }
  yield* parser.end()
}

/** Takes the entries of the outermost mapping that the parser has finished. It still needs the last two. */
function takeFinished({ stack }: Parser): CST.Document | undefined {
  const [document, map] = stack
  if (document?.type !== 'document' || map?.type !== 'block-map' || map.items.length < entriesPerPart) return undefined
  const part = { ...map, items: map.items.splice(0, map.items.length - 2) }
  const [next] = map.items
  // The composer measures keys from the start of the mapping, which is now the first remaining entry.
  map.offset = next?.start[0]?.offset ?? next?.key?.offset ?? map.offset
  return { type: 'document', offset: document.offset, start: [], value: part }
}

function findProblem(lexeme: string): string | undefined {
  if (lexeme.length > maxLexemeLength) return tooLong
  const mark = lexeme[0]
  if (mark === '!' && lexeme !== '!!str') return 'tags are not allowed'
  if (mark !== '"' && mark !== "'") return undefined

  const bare = mark === '"' ? lexeme.replace(escapes, '') : lexeme
  if (bare.length === 1 || !bare.endsWith(mark)) return 'the quote that opens this string is never closed'
  return mark === '"' && bare.includes('\\') ? 'a quoted string contains an escape that YAML does not allow' : undefined
}

/** Replaces the library's messages, which quote the file and so could reveal a secret. */
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
  if (text === undefined) throw refuseLine(line, 'an alias must name the anchor of an earlier value')
  walk.aliasedLength += text.length
  if (walk.aliasedLength > maxAliasedLength) throw refuseLine(line, 'the aliases expand to more than 8 MiB')
  return text
}

function isNull(node: Scalar): boolean {
  return node.type === 'PLAIN' && node.tag === undefined && /^(?:~|null|Null|NULL)$/.test(String(node.value))
}
