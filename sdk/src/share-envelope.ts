/**
 * The share envelope, version 1: sealed by the sender and opened by the reader, in a browser or in Node, with WebCrypto
 * alone. The link secret stays in the URL fragment, which browsers never send. The server gets the ciphertext, the
 * commitment and hashes of proofs: enough to recognise a holder of the link, but not to read the content.
 */
export type ShareContent =
  | { readonly t: 'text'; readonly v: string }
  | { readonly t: 'kv'; readonly items: readonly { readonly name: string; readonly value: string }[] }

/** Sent to the server. Binary fields are base64url without padding. */
export type Envelope = {
  readonly ciphertext: string
  readonly commit: string
  readonly linkProofHash: string
  readonly passProofHash?: string
}
export type SealedShare = { readonly envelope: Envelope; readonly fragment: string }

/** The proofs that a reader sends to the server, and the function that opens its response. */
export type UnlockedShare = {
  readonly linkProof: string
  readonly passProof?: string
  open(ciphertext: string, commit: string): Promise<ShareContent>
}

export type ShareEnvelopeProblem = 'damaged-link' | 'damaged-content' | 'wrong-key' | 'too-large'

export class ShareEnvelopeError extends Error {
  readonly problem: ShareEnvelopeProblem

  constructor(problem: ShareEnvelopeProblem, message: string) {
    super(message)
    this.name = 'ShareEnvelopeError'
    this.problem = problem
  }
}

type Bytes = Uint8Array<ArrayBuffer>

const version = 'secret-share/v1'
const secretBytes = 32
const checkBytes = 4
const nonceBytes = 12
const tagBytes = 16
const lengthBytes = 4
/** Plaintexts are padded to a multiple of this, to hide their exact length. */
const paddingBytes = 256
/** The largest secret value fits, even if JSON escapes every byte as six. */
const maxPlaintextBytes = 512 * 1024
const passphraseRounds = 600_000

const encoder = new TextEncoder()
const utf8 = (text: string): Bytes => encoder.encode(text)
const nothing = new Uint8Array(0)

export async function seal(content: ShareContent, passphrase?: string): Promise<SealedShare> {
  const secret = crypto.getRandomValues(new Uint8Array(secretBytes))
  return sealWith(secret, crypto.getRandomValues(new Uint8Array(nonceBytes)), content, passphrase)
}

/** Seals with a given link secret and nonce, for test vectors. Neither may ever be reused. */
export async function sealWith(
  secret: Bytes,
  nonce: Bytes,
  content: ShareContent,
  passphrase?: string,
): Promise<SealedShare> {
  const plaintext = pad(utf8(toJson(content)))
  const keys = await deriveShareKeys(secret, passphrase)
  const key = await crypto.subtle.importKey('raw', keys.encKey, 'AES-GCM', false, ['encrypt'])
  const sealed = await crypto.subtle.encrypt(cipher(nonce, keys), key, plaintext)
  const envelope = {
    ciphertext: toBase64Url(join(nonce, new Uint8Array(sealed))),
    commit: toBase64Url(keys.commit),
    linkProofHash: toBase64Url(await sha256(keys.linkProof)),
    ...(keys.passProof && { passProofHash: toBase64Url(await sha256(keys.passProof)) }),
  }
  return { envelope, fragment: `#1.${toBase64Url(join(secret, await checkOf(secret)))}` }
}

/** Derives the reader's keys. Slow with a passphrase, on purpose, to make guessing expensive. */
export async function unlock(fragment: string, passphrase?: string): Promise<UnlockedShare> {
  const keys = await deriveShareKeys(await readFragment(fragment), passphrase)
  return {
    linkProof: toBase64Url(keys.linkProof),
    ...(keys.passProof && { passProof: toBase64Url(keys.passProof) }),
    open: (ciphertext, commit) => openWith(keys, ciphertext, commit),
  }
}

export async function open(
  fragment: string,
  ciphertext: string,
  commit: string,
  passphrase?: string,
): Promise<ShareContent> {
  return (await unlock(fragment, passphrase)).open(ciphertext, commit)
}

export type ShareKeys = {
  readonly salt: Bytes
  readonly linkProof: Bytes
  readonly passProof: Bytes | undefined
  readonly encKey: Bytes
  readonly commit: Bytes
}

export async function deriveShareKeys(secret: Bytes, passphrase = ''): Promise<ShareKeys> {
  const salt = await hkdf(secret, nothing, 'salt', 16)
  const hasPassphrase = passphrase !== ''
  const ikm = hasPassphrase ? join(secret, await stretch(passphrase, salt)) : secret
  return {
    salt,
    linkProof: await hkdf(secret, nothing, 'link-proof', 32),
    passProof: hasPassphrase ? await hkdf(ikm, salt, 'pass-proof', 32) : undefined,
    encKey: await hkdf(ikm, salt, 'enc', 32),
    commit: await hkdf(ikm, salt, 'commit', 32),
  }
}

async function openWith(keys: ShareKeys, ciphertext: string, commit: string): Promise<ShareContent> {
  // GCM does not commit to its key: without this check, one ciphertext could be crafted to open differently for two
  // readers.
  if (commit !== toBase64Url(keys.commit)) {
    throw new ShareEnvelopeError('wrong-key', 'This link, or the passphrase, does not belong to this content.')
  }
  const bytes = fromBase64Url(ciphertext)
  if (!bytes || bytes.length < nonceBytes + tagBytes + paddingBytes) throw damagedContent()
  const key = await crypto.subtle.importKey('raw', keys.encKey, 'AES-GCM', false, ['decrypt'])
  const nonce = bytes.slice(0, nonceBytes)
  const plaintext = await crypto.subtle
    .decrypt(cipher(nonce, keys), key, bytes.slice(nonceBytes))
    .catch(() => Promise.reject(damagedContent()))
  try {
    return parseContent(unpad(new Uint8Array(plaintext)))
  } catch {
    // The content decrypted, but is not in this format.
    throw damagedContent()
  }
}

function cipher(nonce: Bytes, keys: ShareKeys) {
  const flags = Uint8Array.of(0, keys.passProof ? 1 : 0)
  const additionalData = join(utf8(version), flags, keys.commit)
  return { name: 'AES-GCM', iv: nonce, additionalData, tagLength: tagBytes * 8 }
}

/** Fixed field order, whatever the order of the input. */
function toJson(content: ShareContent): string {
  if (content.t === 'text') return JSON.stringify({ t: content.t, v: content.v })
  return JSON.stringify({ t: content.t, items: content.items.map(({ name, value }) => ({ name, value })) })
}

function parseContent(json: string): ShareContent {
  const content: unknown = JSON.parse(json)
  if (isRecord(content) && content.t === 'text' && typeof content.v === 'string') return { t: 'text', v: content.v }
  if (isRecord(content) && content.t === 'kv' && Array.isArray(content.items)) {
    const items = content.items.map((item: unknown) => {
      if (!isRecord(item) || typeof item.name !== 'string' || typeof item.value !== 'string') throw damagedContent()
      return { name: item.name, value: item.value }
    })
    return { t: 'kv', items }
  }
  throw damagedContent()
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function pad(json: Bytes): Bytes {
  const length = Math.ceil((lengthBytes + json.length) / paddingBytes) * paddingBytes
  if (length > maxPlaintextBytes) throw new ShareEnvelopeError('too-large', 'A share holds 512 KiB at most.')
  const padded = new Uint8Array(length)
  new DataView(padded.buffer).setUint32(0, json.length)
  padded.set(json, lengthBytes)
  return padded
}

function unpad(padded: Bytes): string {
  const length = new DataView(padded.buffer).getUint32(0)
  if (length > padded.length - lengthBytes) throw damagedContent()
  return new TextDecoder('utf-8', { fatal: true }).decode(padded.subarray(lengthBytes, lengthBytes + length))
}

/** Detects a damaged link before any request to the server. */
async function readFragment(fragment: string): Promise<Bytes> {
  const bytes = fragment.startsWith('#1.') ? fromBase64Url(fragment.slice('#1.'.length)) : undefined
  const secret = bytes?.slice(0, secretBytes)
  const isWhole = secret && bytes?.length === secretBytes + checkBytes
  if (!isWhole || !isEqual(bytes.slice(secretBytes), await checkOf(secret))) {
    throw new ShareEnvelopeError('damaged-link', 'This link is damaged: a part of it was changed or cut off.')
  }
  return secret
}

async function checkOf(secret: Bytes): Promise<Bytes> {
  return (await sha256(join(utf8(`${version}/check`), secret))).slice(0, checkBytes)
}

async function stretch(passphrase: string, salt: Bytes): Promise<Bytes> {
  // Keyboards may compose the same characters differently; NFKC makes them equal.
  const key = await crypto.subtle.importKey('raw', utf8(passphrase.normalize('NFKC')), 'PBKDF2', false, ['deriveBits'])
  const how = { name: 'PBKDF2', hash: 'SHA-256', salt, iterations: passphraseRounds }
  return new Uint8Array(await crypto.subtle.deriveBits(how, key, 256))
}

async function hkdf(ikm: Bytes, salt: Bytes, purpose: string, length: number): Promise<Bytes> {
  const key = await crypto.subtle.importKey('raw', ikm, 'HKDF', false, ['deriveBits'])
  const how = { name: 'HKDF', hash: 'SHA-256', salt, info: utf8(`${version}/${purpose}`) }
  return new Uint8Array(await crypto.subtle.deriveBits(how, key, length * 8))
}

async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

function join(...parts: readonly Bytes[]): Bytes {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

const isEqual = (a: Bytes, b: Bytes) => a.length === b.length && a.every((byte, at) => byte === b[at])

function damagedContent(): ShareEnvelopeError {
  return new ShareEnvelopeError('damaged-content', 'The content of this share is damaged.')
}

export function toBase64Url(bytes: Bytes): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Returns undefined for anything but canonical base64url. */
export function fromBase64Url(text: string): Bytes | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
  return toBase64Url(bytes) === text ? bytes : undefined
}
