/**
 * What every reader gives and every writer takes. Messages name a line or a key, and never quote a value: they reach
 * logs and screens that secrets must not reach.
 */
import { maxSecretsPerRequest, maxValueBytes } from '@coffer/contract/secret'
import { type Failure, invalid } from '../../../failure.ts'

export type Entry = { readonly key: string; readonly value: string }

/** An entry as a reader found it, not yet checked; the line is where it begins, counted from 1. */
export type FoundEntry = Entry & { readonly line: number }

/** Between entries a reader may say that it has worked for a while without finding one: others may have their turn. */
export const pause = Symbol('pause')

/** The longest way to write a value is \u0000 for each of its bytes; whatever is longer is not read to its end. */
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

/** The key for a message. Format characters are left out, as they could turn the message's own text around. */
export function nameKey(key: string): string {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u.test(key) ? `"${key}"` : 'this key'
}

/** Control characters (\p{Cc}, which takes far longer), line and paragraph separators, the byte order mark and its like. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

/** There are few such characters, but a value may be full of them: each is spelled out beforehand. */
const spelled: ReadonlyMap<string, string> = new Map(
  Array.from({ length: 0xa0 }, (_, code) => code)
    .concat(0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff)
    .map((code) => [String.fromCharCode(code), `\\u${code.toString(16).padStart(4, '0')}`]),
)

/** What editors and parsers may not keep. */
export function escapeUnprintable(text: string): string {
  return text.replace(unprintable, (character) => spelled.get(character) ?? character)
}
