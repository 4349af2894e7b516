/**
 * Types and messages that readers and writers share. Messages name a line or a key and never quote a value, because
 * they reach logs and screens that secrets must not reach.
 */
import { maxSecretsPerRequest, maxValueBytes } from '@coffer/contract/secret'
import type { Entry } from '@coffer/contract/secret-format'
import type { LeftOut } from '@coffer/contract/variable-name'
import { type Failure, invalid } from '../../../failure.ts'

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

/** The key for a message. Keys with format characters are not quoted: these could reverse the text of the message. */
export function nameKey(key: string): string {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u.test(key) ? `"${key}"` : 'this key'
}
