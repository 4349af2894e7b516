/**
 * Bearer values: a prefix, 30 random base62 characters (178 bits) and a CRC-32 in 6 characters, so that a mistyped or
 * made-up value is refused without a lookup. Only a keyed hash of a value is ever stored.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { RootKey } from './keyring.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 30
const checksumLength = 6

export const tokenPrefix = 'cof_live_'
export const sessionPrefix = 'cof_sess_'
export const invitePrefix = 'cof_inv_'
export const mailPrefix = 'cof_mail_'
export const resetPrefix = 'cof_reset_'
const prefixes = [tokenPrefix, sessionPrefix, invitePrefix, mailPrefix, resetPrefix] as const
export type BearerPrefix = (typeof prefixes)[number]

/**
 * The operator chooses the first word of tokens. Checksum and hash always use `cof`, so any word is valid for any
 * token.
 */
const tokenWord = /^[a-z0-9]{2,12}(?=_live_)/
const hashedWord = 'cof'

/** Replaces the first word of a token or of its visible prefix. */
export function withTokenWord(value: string, word: string): string {
  return value.replace(tokenWord, word)
}

export function createBearer(prefix: BearerPrefix): string {
  const body = prefix + randomBase62(randomLength)
  return body + checksum(body)
}

/**
 * Token in the link of a share: 190 bits, in characters that messengers leave intact. It has no checksum and is always
 * looked up.
 */
export function createShareToken(): string {
  return randomBase62(32)
}

/** The kind of bearer value; undefined if the form or the checksum is wrong. */
export function bearerKind(given: string): BearerPrefix | undefined {
  const value = withTokenWord(given, hashedWord)
  const prefix = prefixes.find((candidate) => value.startsWith(candidate))
  if (!prefix || value.length !== prefix.length + randomLength + checksumLength) return undefined
  const body = value.slice(0, -checksumLength)
  if (!/^[0-9A-Za-z]+$/.test(value.slice(prefix.length))) return undefined
  return checksum(body) === value.slice(-checksumLength) ? prefix : undefined
}

export function hashBearer(root: RootKey, value: string): Buffer {
  return createHmac('sha256', root.token).update(withTokenWord(value, hashedWord), 'utf8').digest()
}

function checksum(body: string): string {
  let rest = crc32(body)
  let text = ''
  for (let index = 0; index < checksumLength; index++) {
    text = alphabet.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}

function randomBase62(length: number): string {
  let text = ''
  while (text.length < length) {
    // 248 = 4 · 62: larger bytes would favour the first characters of the alphabet.
    for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62)
  }
  return text
}
