/**
 * Keys of outside issuers: found by discovery, fetched through `outbound`, and cached. Callers ask only for issuers
 * that a workspace trusts, so an arbitrary token cannot trigger outbound requests.
 */
import type { JSONWebKeySet, JWK } from 'jose'
import { setBounded } from '../../bounded-map.ts'
import { type Outbound, OutboundError, type OutboundReach } from '../../outbound.ts'
import { hourMs, minuteMs, secondMs } from '../time.ts'
import { type JsonObject, parseJsonObject } from './json.ts'
import { algorithms } from './token.ts'

/** Keys are refreshed after `freshForMs`; if the issuer does not answer, they stay valid until `overAfterMs`. */
const freshForMs = 10 * minuteMs
const overAfterMs = hourMs
/** The issuer may have added an unknown kid since the last fetch. */
const retryKidAfterMs = 10 * secondMs
const never = Number.NEGATIVE_INFINITY
const retryFailureAfterMs = 10 * secondMs
const timeoutMs = 5 * secondMs
const maxDiscoveryBytes = 128 * 1024
const maxKeysBytes = 512 * 1024
const maxKeys = 100
const maxIssuers = 500
/** Length of an 8192-bit RSA modulus in base64url: verifying with a larger key would take too much CPU. */
const maxFieldLength = 1_366

export type Issuers = {
  /** Describes what is wrong with the token's signature; undefined if it is valid. */
  findProblem(issuer: Issuer, token: string): Promise<string | undefined>
}
/** Cached per reach: keys from a private address must not serve workspaces that may not connect to it. */
type Place = { readonly url: string; readonly reach: OutboundReach }
/** An issuer as an identity names it. Keys that were fetched before `changedAt`, its last change, are fetched anew. */
type Issuer = Place & { readonly changedAt: number }

type Jose = typeof import('jose')
type KeySet = { readonly find: ReturnType<Jose['createLocalJWKSet']>; readonly fetchedAt: number }
type Known = {
  keys?: KeySet
  problem: string
  triedAt: number
  /** The last fetch that an unknown kid caused. */
  kidTriedAt: number
  /** The last change of an identity that caused a fetch. */
  changedAt: number
  fetching?: Promise<void> | undefined
}

export function createIssuers(outbound: Outbound, now: () => number): Issuers {
  const known = new Map<string, Known>()

  async function findProblem(issuer: Issuer, token: string): Promise<string | undefined> {
    // Loaded on first use, because most installations trust no outside issuer.
    const jose = await import('jose')
    const entry = remember(issuer)
    const seen = entry.keys
    if (Math.max(entry.triedAt, entry.changedAt) < issuer.changedAt) await fetchForChange(jose, issuer, entry)
    else if (ageOf(entry) >= freshForMs) await fetchUnlessTried(jose, issuer, entry)
    if (!entry.keys || ageOf(entry) >= overAfterMs) return entry.problem
    const before = entry.keys
    const problem = await verify(jose, before, token)
    // These keys have just been fetched, so another fetch would not help.
    if (problem !== unknownKey || before !== seen) return problem
    await fetchForKid(jose, issuer, entry)
    return entry.keys === before ? problem : verify(jose, entry.keys, token)
  }

  /** After the clock was set back, the elapsed time is unknown and counts as infinite. */
  function elapsedSince(atMs: number): number {
    const elapsedMs = now() - atMs
    return elapsedMs < 0 ? Number.POSITIVE_INFINITY : elapsedMs
  }

  const ageOf = ({ keys }: Known) => elapsedSince(keys?.fetchedAt ?? never)

  /** Keeps the cache in order of use, and evicts the least recently used entry. */
  function remember({ url, reach }: Place): Known {
    const name = `${reach} ${url}`
    const entry = known.get(name) ?? { problem: '', triedAt: never, kidTriedAt: never, changedAt: never }
    setBounded(known, maxIssuers, name, entry)
    return entry
  }

  async function fetchUnlessTried(jose: Jose, issuer: Issuer, entry: Known): Promise<void> {
    if (entry.fetching || elapsedSince(entry.triedAt) >= retryFailureAfterMs) await fetchOnce(jose, issuer, entry)
  }

  /** Once for each change: the clock of the node that made it may be ahead, and later tokens must not fetch until then. */
  async function fetchForChange(jose: Jose, issuer: Issuer, entry: Known): Promise<void> {
    // A fetch that began before the change may return older keys.
    await entry.fetching
    entry.changedAt = issuer.changedAt
    await fetchOnce(jose, issuer, entry)
  }

  /** Only fetches for an unknown kid count here: a key may be added right after any other fetch. */
  async function fetchForKid(jose: Jose, issuer: Issuer, entry: Known): Promise<void> {
    if (!entry.fetching && elapsedSince(entry.kidTriedAt) < retryKidAfterMs) return
    if (!entry.fetching) entry.kidTriedAt = now()
    await fetchOnce(jose, issuer, entry)
  }

  /** Concurrent callers share one fetch. */
  async function fetchOnce(jose: Jose, issuer: Issuer, entry: Known): Promise<void> {
    entry.fetching ??= fetchInto(jose, issuer, entry).finally(() => {
      entry.fetching = undefined
    })
    await entry.fetching
  }

  async function fetchInto(jose: Jose, issuer: Issuer, entry: Known): Promise<void> {
    entry.triedAt = now()
    try {
      const keys = await fetchKeys(issuer)
      entry.keys = { find: jose.createLocalJWKSet(keys), fetchedAt: entry.triedAt }
    } catch (error) {
      if (!(error instanceof OutboundError) && !(error instanceof IssuerError)) throw error
      entry.problem = `no keys: ${error.message}`
    }
  }

  async function fetchKeys({ url: issuer, reach }: Issuer): Promise<JSONWebKeySet> {
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const discovery = await fetchJson({ url, reach }, 'discovery document', maxDiscoveryBytes)
    if (discovery.issuer !== issuer) throw new IssuerError('its discovery document names another issuer.')
    if (typeof discovery.jwks_uri !== 'string') throw new IssuerError('its discovery document has no jwks_uri.')
    const { keys } = await fetchJson({ url: discovery.jwks_uri, reach }, 'JWKS', maxKeysBytes)
    if (!Array.isArray(keys)) throw new IssuerError('its JWKS has no list of keys.')
    return { keys: keys.slice(0, maxKeys).flatMap(readKey) }
  }

  async function fetchJson(at: Place, what: string, maxBytes: number): Promise<JsonObject> {
    const headers = { accept: 'application/json' }
    const { status, body } = await outbound.request({ ...at, headers, timeoutMs, maxBytes })
    if (status >= 300 && status < 400)
      throw new IssuerError(`its ${what} is a redirect, and redirects are not followed.`)
    if (status !== 200) throw new IssuerError(`the request for its ${what} returned status ${status}.`)
    const object = parseJsonObject(body.toString('utf8'))
    if (!object) throw new IssuerError(`its ${what} is not a JSON object, or has a duplicate name.`)
    return object
  }

  return { findProblem }
}

class IssuerError extends Error {}

const unknownKey = 'the issuer has no key that matches the kid and the algorithm'

/** Keeps public keys of supported types and sizes, with only the fields that verification needs. */
function readKey(key: unknown): JWK[] {
  if (typeof key !== 'object' || key === null || !('kty' in key)) return []
  if (key.kty !== 'RSA' && key.kty !== 'EC' && key.kty !== 'OKP') return []
  const wanted = ['kty', 'kid', 'alg', 'use', 'n', 'e', 'crv', 'x', 'y'] as const
  const fields = Object.entries(key).filter(([name]) => wanted.some((field) => field === name))
  const isFitting = fields.every(([, value]) => typeof value === 'string' && value.length <= maxFieldLength)
  return isFitting ? [Object.fromEntries(fields)] : []
}

async function verify(jose: Jose, { find }: KeySet, token: string): Promise<string | undefined> {
  try {
    await jose.compactVerify(token, find, { algorithms: [...algorithms] })
    return undefined
  } catch (error) {
    if (error instanceof jose.errors.JWKSNoMatchingKey) return unknownKey
    if (error instanceof jose.errors.JWKSMultipleMatchingKeys) return 'several keys match, and the token has no kid'
    if (error instanceof jose.errors.JWSSignatureVerificationFailed) return 'the signature does not match the key'
    return 'the key cannot be used: an RSA key needs 2048 bits or more, other keys the curve of the algorithm'
  }
}
