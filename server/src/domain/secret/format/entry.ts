/**
 * Types and messages that all readers and writers share. Messages name a line or a key and never quote a value, because
 * they reach logs and screens that secrets must not reach.
 */
import { maxSecretsPerRequest, maxValueBytes } from '@coffer/contract/secret'
import type { LeftOut } from '@coffer/contract/variable-name'
import { type Failure, invalid } from '../../../failure.ts'

export type Entry = { readonly key: string; readonly value: string }

/** An entry as a reader found it, not yet checked; the line is where it begins, counted from 1. */
export type FoundEntry = Entry & { readonly line: number }

/** `isLiteral`: `${` in the file is text, and no reference. */
export type ReadOptions = { readonly isLiteral: boolean }

/** `isResolved`: the values are for programs; otherwise they are stored text, with references. */
export type WriteOptions = {
  readonly name: string
  readonly isResolved: boolean
  /** Secrets that the file names instead of holding them, for formats that a shell evaluates. */
  readonly leftOut?: readonly LeftOut[]
}

/** Yielded by a reader that has worked for a while without finding an entry, so that other requests can run. */
export const pause = Symbol('pause')

/** The longest way to write a value is \u0000 for each of its bytes. Longer text is refused without reading on. */
export const maxWrittenLength = 6 * maxValueBytes
export const tooLong = 'the text that begins here is too long'
export const tooManyEntries = `more than ${maxSecretsPerRequest.toLocaleString('en')} entries`

export function refuseLine(line: number, problem: string): Failure {
  return invalid('content', `line ${line}: ${problem}`)
}

export function refuseValue(format: string, key: string, reason: string): Failure {
  return invalid('format', `${format} cannot hold the value of ${key}: ${reason}`)
}

export function refuseKey(format: string, key: string, reason: string): Failure {
  return invalid('format', `${format} cannot hold the key ${key}: ${reason}`)
}

/** The key for a message. Keys with format characters are not quoted: these could reverse the text of the message. */
export function nameKey(key: string): string {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u.test(key) ? `"${key}"` : 'this key'
}

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
export function escapeUnprintable(text: string): string {
  return text.replace(unprintable, (character) => spelled.get(character) ?? character)
}
