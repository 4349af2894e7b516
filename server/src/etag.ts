/**
 * ETags (RFC 9110, 8.8.3): how they are made, and whether a client has the response that one names. All of ours are
 * strong: an ETag names exact bytes, so each encoding of a response has its own, with the encoding at its end.
 */
import { createHash, createHmac, type KeyObject } from 'node:crypto'

/** Makes the ETag of a response with values, piece by piece. */
type EtagMaker = { add(piece: Uint8Array): void; finish(): string }

/** Keyed: values could be guessed offline from a plain hash. */
export function createEtagMaker(key: KeyObject): EtagMaker {
  const hash = createHmac('sha256', key)
  return {
    add(piece) {
      hash.update(piece)
    },
    finish: () => `"${hash.digest('base64url')}"`,
  }
}

/** The ETag of a file that anybody may read. */
export function fileEtag(bytes: Uint8Array): string {
  return `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
}

/** The ETag of the same response in an encoding. */
export function encodedEtag(etag: string, encoding: 'br' | 'gzip'): string {
  return `${etag.slice(0, -1)}.${encoding}"`
}

const encodingMark = /\.(?:br|gzip)"$/

/**
 * The ETag that the client has of this response, in any encoding; undefined if `If-None-Match` names none. A 304 repeats
 * it. The comparison is weak (RFC 9110, 13.1.2), because proxies mark an ETag as weak when they compress.
 */
export function findKnownEtag(ifNoneMatch: string | undefined, etag: string): string | undefined {
  // Clients send exactly what they got, so nothing is split.
  if (ifNoneMatch === undefined || ifNoneMatch === etag) return ifNoneMatch
  if (ifNoneMatch.trim() === '*') return etag
  const known = ifNoneMatch.split(',').map((candidate) => candidate.trim().replace(/^W\//, ''))
  return known.find((candidate) => candidate.replace(encodingMark, '"') === etag)
}

/** Whether `If-Match` names this ETag. The comparison is strong (RFC 9110, 13.1.1): a weak tag never matches. */
export const isMatch = (ifMatch: string, etag: string): boolean =>
  ifMatch.split(',').some((candidate) => candidate.trim() === etag)
