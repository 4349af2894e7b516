/**
 * Secrets as files. Formats that can be imported reproduce every value byte for byte. An export is refused, naming the
 * key, if the format cannot hold a value or if its readers would silently change it.
 */
import { maxSecretsPerRequest } from '@coffer/contract/secret'
import type { exportFormats, SecretImport } from '@coffer/contract/secret-file'
import { type Entry, FormatError, writers } from '@coffer/contract/secret-format'
import { invalid } from '../../../failure.ts'
import { isId } from '../../id.ts'
import { writeLiteral } from '../reference/reference.ts'
import { isTooLarge } from '../size.ts'
import { readCsv } from './csv.ts'
import { readDotenv, writeStored } from './dotenv.ts'
import {
  type FoundEntry,
  nameKey,
  pause,
  type ReadOptions,
  refuseLine,
  tooManyEntries,
  type WriteOptions,
} from './entry.ts'
import { readJson } from './json.ts'
import { writeKubernetes } from './kubernetes.ts'
import { readYaml } from './yaml.ts'

export type ImportFormat = SecretImport['format']
export type ExportFormat = (typeof exportFormats)[number]

type Reader = {
  readonly read: (content: string, options: ReadOptions) => Iterable<FoundEntry | typeof pause>
  /** False if errors must not quote the key: in a broken dotenv or CSV file it may be a piece of a value. */
  readonly isKeyCertain: boolean
}

const readers: Readonly<Record<ImportFormat, Reader>> = {
  dotenv: { read: readDotenv, isKeyCertain: false },
  json: { read: readJson, isKeyCertain: true },
  yaml: { read: readYaml, isKeyCertain: true },
  csv: { read: readCsv, isKeyCertain: false },
}

const contentTypes: Readonly<Record<ExportFormat, string>> = {
  dotenv: 'text/plain; charset=utf-8',
  shell: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
  yaml: 'application/yaml; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  docker: 'text/plain; charset=utf-8',
  k8s: 'application/yaml; charset=utf-8',
  tfvars: 'text/plain; charset=utf-8',
}

const entriesPerPiece = 500

/** Parses without pauses, for files that are known to be small. */
export function parseEntries(format: ImportFormat, content: string, options?: ReadOptions): Entry[] {
  const pieces = parseInPieces(format, content, options)
  let piece = pieces.next()
  while (!piece.done) piece = pieces.next()
  return piece.value
}

/**
 * Yields after each piece of work, so that a large file does not hold up other requests. Throws invalid('content',
 * 'line N: …'): the message names the line and never quotes a value.
 */
export function* parseInPieces(
  format: ImportFormat,
  content: string,
  options: ReadOptions = { isLiteral: false },
): Generator<void, Entry[]> {
  const { read, isKeyCertain } = readers[format]
  const withoutByteOrderMark = content.startsWith('\ufeff') ? content.slice(1) : content
  const lines = new Map<string, number>()
  const entries: Entry[] = []

  for (const found of read(withoutByteOrderMark, options)) {
    if (found === pause) {
      yield
      continue
    }
    const { line, key } = found
    const value = options.isLiteral ? writeLiteral(found.value) : found.value
    if (entries.length === maxSecretsPerRequest) throw refuseLine(line, tooManyEntries)
    requireKey(line, isKeyCertain ? nameKey(key) : 'the key', key)
    const firstLine = lines.get(key)
    if (firstLine !== undefined) throw refuseLine(line, `${key} is already given on line ${firstLine}`)
    requireValue(line, key, value)
    lines.set(key, line)
    entries.push({ key, value })
    if (entries.length % entriesPerPiece === 0) yield
  }
  return entries
}

/**
 * Lines are generated lazily. Iterating throws invalid('format', …) if the format cannot hold a key or a value; the
 * message names the key. `weight`: bytes of value per byte of the file, less than 1 for base64.
 */
export function formatLines(
  format: ExportFormat,
  entries: readonly Entry[],
  options: WriteOptions,
): { lines: Iterable<string>; contentType: string; weight: number } {
  const lines = writeLines(format, entries, options)
  return { lines, contentType: contentTypes[format], weight: format === 'k8s' ? 3 / 4 : 1 }
}

function* writeLines(format: ExportFormat, entries: readonly Entry[], options: WriteOptions): Generator<string> {
  const { isResolved, leftOut = [] } = options
  try {
    if (format === 'k8s') yield* writeKubernetes(entries, options)
    else if (format === 'dotenv' && !isResolved) yield* writeStored(entries)
    else yield* writers[format](entries, leftOut)
  } catch (error) {
    throw error instanceof FormatError ? invalid('format', error.message) : error
  }
}

function requireKey(line: number, shownKey: string, key: string): void {
  if (!/^[A-Za-z0-9_-]{1,255}$/.test(key)) throw refuseLine(line, `${shownKey} is not 1-255 letters, digits, _ and -`)
  if (isId(key)) throw refuseLine(line, `${shownKey} must not look like an id`)
}

function requireValue(line: number, key: string, value: string): void {
  // Half of a surrogate pair has no UTF-8 form and would be stored as another character.
  if (!value.isWellFormed()) throw refuseLine(line, `the value of ${key} is not valid Unicode`)
  if (isTooLarge(value)) throw refuseLine(line, `the value of ${key} is larger than 64 KiB`)
}
