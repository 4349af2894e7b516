/**
 * Shares of a split master key as text: version, set, threshold, number and index, then the share with check characters
 * in base32, which people can type. A mistyped or foreign share is recognised before it is used.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { combine, split } from 'shamir-secret-sharing'
import { MasterKeyError } from './error.ts'

/** What the store remembers about a split key. */
export type ShareSet = {
  readonly set: string
  readonly threshold: number
  readonly count: number
  /** Recognises the key. It reveals nothing, since the key is random. */
  readonly check: string
  /** Recognises each share, by its index. A share is as random as the key. Missing for keys split by version 0.1.0. */
  readonly shareChecks?: readonly string[]
}

type Share = Omit<ShareSet, 'check' | 'shareChecks'> & { readonly index: number; readonly bytes: Uint8Array }

const keyBytes = 32
/** One byte for each of the key, and its coordinate. */
const shareBytes = keyBytes + 1
const sumBytes = 4
/** Without I, L, O and U, which are taken for others. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const groupLength = 5
const maxShares = 20

export async function splitKey(
  key: Uint8Array,
  { count, threshold }: { count: number; threshold: number },
): Promise<{ set: ShareSet; texts: string[] }> {
  if (!(threshold >= 2 && threshold <= count && count <= maxShares)) {
    throw new MasterKeyError(
      `A key is split into at most ${maxShares} shares, of which at least 2 and at most all are needed.`,
    )
  }
  const shares = await split(Uint8Array.from(key), count, threshold)
  const shareChecks = shares.map(shareCheck)
  const set: ShareSet = { set: randomBytes(4).toString('hex'), threshold, count, check: checkValue(key), shareChecks }
  for (const some of [shares.slice(0, threshold), shares.slice(-threshold)]) {
    const back = await combine(some.map((share) => Uint8Array.from(share)))
    if (!isKeyOf(set, back)) throw new MasterKeyError('The shares do not give the key back; nothing was changed.')
    back.fill(0)
  }
  const texts = shares.map((bytes, at) => shareText({ ...set, index: at + 1, bytes }))
  for (const bytes of shares) bytes.fill(0)
  return { set, texts }
}

/** Wipes the shares. The result is not checked: see `isKeyOf`. */
export async function combineShares(shares: readonly Share[]): Promise<Uint8Array> {
  const key = await combine(shares.map(({ bytes }) => bytes))
  for (const { bytes } of shares) bytes.fill(0)
  return key
}

export const isKeyOf = ({ check }: ShareSet, key: Uint8Array): boolean => checkValue(key) === check

/** True if the set was made without checks for its shares: then only the combined key shows a wrong one. */
export const isShareOf = ({ shareChecks }: ShareSet, { index, bytes }: Share): boolean =>
  shareChecks === undefined || shareChecks[index - 1] === shareCheck(bytes)

const checkValue = (key: Uint8Array) => checkOf(key, 'coffer master-key check')
const shareCheck = (bytes: Uint8Array) => checkOf(bytes, 'coffer share check')
const checkOf = (bytes: Uint8Array, purpose: string) =>
  createHmac('sha256', bytes).update(purpose).digest('hex').slice(0, 16)

const headOf = ({ set, threshold, count, index }: Omit<Share, 'bytes'>) =>
  `coffer-share-1-${set}-${threshold}of${count}-${index}`

function shareText(share: Share): string {
  const head = headOf(share)
  const text = encode(Buffer.concat([share.bytes, sumOf(head, share.bytes)]))
  return `${head}-${text.match(new RegExp(`.{1,${groupLength}}`, 'g'))?.join('-')}`
}

const sumOf = (head: string, bytes: Uint8Array) =>
  createHash('sha256').update(head).update(bytes).digest().subarray(0, sumBytes)

const notAShare = 'This is not a share of a master key: a share begins with "coffer-share-1-".'
const mistyped = 'This share is mistyped or cut off: its check characters do not match.'

/** Reads a share from bytes, never from a string, which could not be wiped. Throws one sentence. */
export function parseShare(line: Uint8Array): Share {
  const text = Buffer.from(line.buffer, line.byteOffset, line.byteLength)
  const end = endOfHead(text)
  // The head is no secret.
  const head = text.subarray(0, end).toString('latin1').trim().toLowerCase()
  const fields = /^coffer-share-(\d+)-([0-9a-f]{8})-(\d{1,3})of(\d{1,3})-(\d{1,3})$/.exec(head)
  if (!fields) throw new MasterKeyError(notAShare)
  const [, version, set = '', threshold, count, index] = fields
  if (version !== '1') {
    throw new MasterKeyError(`This share has version ${version}, which this version of Coffer does not know.`)
  }
  const bytes = decode(text.subarray(end + 1))
  const share = { set, threshold: Number(threshold), count: Number(count), index: Number(index) }
  const isWhole = bytes?.length === shareBytes + sumBytes
  if (!isWhole || !sumOf(headOf(share), bytes.subarray(0, shareBytes)).equals(bytes.subarray(shareBytes))) {
    bytes?.fill(0)
    throw new MasterKeyError(mistyped)
  }
  const own = Uint8Array.from(bytes.subarray(0, shareBytes))
  bytes.fill(0)
  return { ...share, bytes: own }
}

/** The dash after six words. */
function endOfHead(text: Buffer): number {
  let at = -1
  for (let word = 0; word < 6; word++) {
    at = text.indexOf('-', at + 1)
    if (at < 0) return text.length
  }
  return at
}

function encode(bytes: Uint8Array): string {
  let [text, bits, held] = ['', 0, 0]
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xffff
    for (bits += 8; bits >= 5; bits -= 5) text += alphabet[(held >> (bits - 5)) & 31]
  }
  return bits > 0 ? text + alphabet[(held << (5 - bits)) & 31] : text
}

const digits: ReadonlyMap<number, number> = new Map(
  [...alphabet].flatMap((letter, value) =>
    [letter, letter.toLowerCase()].map((one): [number, number] => [one.charCodeAt(0), value]),
  ),
)
/** Letters that people take for digits. */
const alike: ReadonlyMap<number, number> = new Map(
  [...'oO']
    .map((letter): [number, number] => [letter.charCodeAt(0), 0])
    .concat([...'iIlL'].map((letter) => [letter.charCodeAt(0), 1])),
)
const ignored: ReadonlySet<number> = new Set([...'- \t\r\n'].map((letter) => letter.charCodeAt(0)))

function decode(text: Uint8Array): Buffer | undefined {
  const bytes = Buffer.alloc(Math.floor((text.length * 5) / 8) + 1)
  let [at, bits, held] = [0, 0, 0]
  for (const letter of text) {
    if (ignored.has(letter)) continue
    const value = digits.get(letter) ?? alike.get(letter)
    if (value === undefined) return undefined
    held = ((held << 5) | value) & 0xfff
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes[at++] = (held >> bits) & 0xff
  }
  // The last letter holds bits that belong to no byte.
  return bits < 5 && (held & ((1 << bits) - 1)) === 0 ? bytes.subarray(0, at) : undefined
}
