/**
 * Seals every secret with AES-256-GCM and a random 96-bit nonce, bound to its place by associated data. No other file
 * creates or opens sealed records, or builds associated data.
 *
 * Record: format (1 byte, 1) · key version (4 bytes, big endian) · nonce (12) · ciphertext · tag (16)
 */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { Failure } from '../failure.ts'
import { fillRandom } from './random-pool.ts'

const format = 1
const nonceBytes = 12
const tagBytes = 16
const headerBytes = 5
const lengthBytes = 4
const lengthRoom = '\0'.repeat(lengthBytes)
/** Size that sealing adds to the plaintext. */
export const overheadBytes = headerBytes + nonceBytes + tagBytes
export const keyBytes = 32
const maxKeyVersion = 0x7fff_ffff

/** Length-prefixed, so that different lists of parts never give the same bytes. */
export function associatedData(purpose: string, ...parts: (string | number)[]): Buffer {
  return lengthPrefixed([purpose, ...parts.map(String)])
}

export function lengthPrefixed(parts: readonly (string | Uint8Array)[]): Buffer {
  let text = ''
  for (const part of parts) {
    if (typeof part !== 'string') return prefixEach(parts)
    text += lengthRoom + part
  }
  // One write for all parts, most of which are ASCII: only then all lengths in characters are lengths in bytes.
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length !== text.length) return prefixEach(parts)
  let at = 0
  for (const { length } of parts) {
    bytes.writeUInt32BE(length, at)
    at += lengthBytes + length
  }
  return bytes
}

function prefixEach(parts: readonly (string | Uint8Array)[]): Buffer {
  let room = 0
  // One UTF-16 unit takes at most three bytes; measuring each part first would cost as much as writing it.
  for (const part of parts) room += lengthBytes + (typeof part === 'string' ? 3 * part.length : part.length)
  const bytes = Buffer.allocUnsafe(room)
  let at = 0
  for (const part of parts) {
    const start = at + lengthBytes
    if (typeof part === 'string') at = start + bytes.write(part, start, 'utf8')
    else {
      bytes.set(part, start)
      at = start + part.length
    }
    bytes.writeUInt32BE(at - start, start - lengthBytes)
  }
  return bytes.subarray(0, at)
}

export function seal(key: KeyObject, keyVersion: number, aad: Uint8Array, plaintext: Uint8Array): Buffer {
  const record = Buffer.allocUnsafe(overheadBytes + plaintext.length)
  const textAt = headerBytes + nonceBytes
  record.writeUInt8(format)
  record.writeUInt32BE(keyVersion, 1)
  fillRandom(record, headerBytes, textAt)
  const cipher = createCipheriv('aes-256-gcm', key, record.subarray(headerBytes, textAt), { authTagLength: tagBytes })
  cipher.setAAD(Buffer.concat([record.subarray(0, headerBytes), aad]))
  record.set(cipher.update(plaintext), textAt)
  cipher.final()
  record.set(cipher.getAuthTag(), textAt + plaintext.length)
  return record
}

/** Throws `integrity` unless this record was sealed with this key and this associated data. */
export function open(key: KeyObject, aad: Uint8Array, record: Uint8Array): Buffer {
  keyVersionOf(record)
  const tagAt = record.length - tagBytes
  const nonce = record.subarray(headerBytes, headerBytes + nonceBytes)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  decipher.setAAD(Buffer.concat([record.subarray(0, headerBytes), aad]))
  decipher.setAuthTag(record.subarray(tagAt))
  const plaintext = decipher.update(record.subarray(headerBytes + nonceBytes, tagAt))
  try {
    // Checks the tag; GCM holds no bytes back until here.
    decipher.final()
  } catch (cause) {
    throw new Failure('integrity', undefined, { cause })
  }
  return plaintext
}

/** The key version that is needed to open a record. */
export function keyVersionOf(record: Uint8Array): number {
  if (record.length < overheadBytes || record[0] !== format) throw new Failure('integrity')
  let version = 0
  for (let at = 1; at < headerBytes; at++) version = version * 256 + (record[at] ?? 0)
  // No key has such a version, and the engines could not even query it.
  if (version > maxKeyVersion) throw new Failure('integrity')
  return version
}

export function newKey(): Buffer {
  return randomBytes(keyBytes)
}

/** Keys are KeyObjects from here on: they do not print, and raw buffers are several times slower. */
export function asKey(bytes: Uint8Array): KeyObject {
  if (bytes.length !== keyBytes) throw new Failure('integrity')
  return createSecretKey(bytes)
}

export function deriveKey(key: Uint8Array, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', key, '', `coffer/${purpose}/v1`, keyBytes)))
}
