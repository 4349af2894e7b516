/**
 * Turns a bearer value into its actor. Look-ups and verified signatures are cached, decisions are not: each request
 * checks revocation, expiry and allowed addresses against the workspace snapshot, which every change replaces.
 */
import { hash } from 'node:crypto'
import { setBounded } from '../../bounded-map.ts'
import { type JwtClaims, keyIdOf, verifyJwt } from '../../crypto/jwt.ts'
import type { Keyring } from '../../crypto/keyring.ts'
import { bearerKind, hashBearer, sessionPrefix, tokenPrefix } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import { type AccountProofs, proofsOf } from '../../store/account/account.ts'
import type { Session } from '../../store/account/session.ts'
import type { Keys } from '../../store/key/key.ts'
import { ownerOf } from '../../store/owner.ts'
import type { ReadStore, Store } from '../../store/store.ts'
import type { Actor } from '../actor.ts'
import { createLoadingCache } from '../cache/loading-cache.ts'
import type { WorkspaceSnapshots } from '../cache/workspace-snapshot.ts'
import type { ReadyIdentity, ReadyToken } from '../ready-token.ts'
import { sessionIdleMs } from '../session-life.ts'
import { findRefusal } from './token-refusal.ts'
import type { Usage } from './usage.ts'

const maxRemembered = 20_000

export type Credentials = {
  /** The actor of a live credential, from caches alone; undefined if anything must be loaded from the store. */
  recognise(key: string, ip: string): Actor | undefined
  /** Throws `unauthenticated` unless the value is a live credential. */
  authenticate(value: string, ip: string): Promise<Actor>
  /** What the owner of a token has proven, if it is cached. */
  peekProofs(userId: string): AccountProofs | undefined
  /** Drops the cached sessions of a person, and what they have proven about their account. */
  dropUser(userId: string): void
  clear(): void
  /** Increases whenever sessions are dropped: a session found at an earlier generation may have ended. */
  readonly generation: number
}

type Located = {
  readonly id: string
  readonly workspaceId: string
  readonly hashes: readonly Buffer[]
  /** The root keys that the hashes were computed with. */
  readonly keyring: Keyring
}
/** A token, and what its owner has proven about their account; a service account has none. */
type OwnedToken = { readonly token: ReadyToken; readonly proofs: AccountProofs | undefined }
type SessionUser = { readonly id: string; readonly email: string; readonly proofs: AccountProofs }
type LiveSession = {
  readonly session: Session
  readonly factorId: string | null
  readonly user: SessionUser
  seenAt: number
}
type Parts = {
  readonly store: ReadStore
  readonly keys: Keys
  readonly snapshots: WorkspaceSnapshots
  readonly usage: Usage
  readonly issuer: string
  /** Store work that no request waits for. */
  readonly later: (work: (store: Store) => Promise<void> | void) => void
  readonly now: () => number
}

export function createCredentials(parts: Parts): Credentials {
  const { store, keys, snapshots, usage, now, later } = parts
  const located = new Map<string, Located>()
  const sessions = new Map<string, LiveSession>()
  const claims = new Map<string, JwtClaims>()
  /** What the owners of tokens have proven about their accounts, by user id. */
  const proven = createLoadingCache(maxRemembered, store.accounts.findProofs)

  async function authenticate(value: string, ip: string): Promise<Actor> {
    const kind = bearerKind(value)
    if (kind === tokenPrefix) return authenticateToken(value, ip)
    if (kind === sessionPrefix) return authenticateSession(value)
    if (value.startsWith('ey')) return authenticateJwt(value, ip)
    throw new Failure('unauthenticated')
  }

  function recognise(key: string, ip: string): Actor | undefined {
    const known = located.get(key)
    const owned = known && peekToken(known.workspaceId, known.id)
    if (known && owned) return tokenActor(owned, known, ip)
    const claimed = claims.get(key)
    if (!claimed || claimed.exp * 1000 <= now()) return undefined
    if (claimed.kind === 'oidc') {
      const identity = snapshots.peek(claimed.workspace)?.identities.peek(claimed.sub)
      return identity && federatedActor(identity, claimed)
    }
    const source = peekToken(claimed.workspace, claimed.sub)
    return source && jwtActor(source, claimed, ip)
  }

  function peekToken(workspaceId: string, id: string): OwnedToken | undefined {
    const snapshot = snapshots.peek(workspaceId)
    const token = snapshot?.tokens.peek(id)
    if (!snapshot || !token || !snapshot.principals.has(ownerOf(token))) return undefined
    if (token.serviceAccountId !== null) return { token, proofs: undefined }
    const proofs = proven.peek(token.createdBy)
    return proofs && { token, proofs }
  }

  async function authenticateToken(value: string, ip: string): Promise<Actor> {
    const key = credentialKey(value)
    const known = located.get(key)
    const actor = known && tokenActor(await requireToken(known.workspaceId, known.id), known, ip)
    if (actor) return actor
    located.delete(key)
    const fresh = await locate(key, value)
    const found = tokenActor(await requireToken(fresh.workspaceId, fresh.id), fresh, ip)
    if (found) return found
    // The store knows the token, so the cached snapshot must hold its record under a root key that is gone.
    snapshots.drop(fresh.workspaceId)
    const last = tokenActor(await requireToken(fresh.workspaceId, fresh.id), fresh, ip)
    if (!last) throw new Failure('unauthenticated')
    return last
  }

  /** Undefined if root keys were rotated between caching the value's hashes and loading the token: reload both. */
  function tokenActor(owned: OwnedToken, known: Located, ip: string): Actor | undefined {
    const { token } = owned
    const isCurrent = known.hashes.some((candidate) => candidate.equals(token.hash))
    if (!isCurrent && !isInGrace(token, known.hashes)) {
      if (known.keyring !== keys.keyring || !keys.keyring.find(token.hashRootId)) return undefined
      throw new Failure('unauthenticated')
    }
    const generation = isCurrent ? token.generation : token.generation - 1
    return liveActor(owned, ip, { type: token.type === 'cli' ? 'cli-token' : 'static', generation }, null)
  }

  async function locate(key: string, value: string): Promise<Located> {
    const found = await keys.lookTwice(key, () => store.tokens.locate(value))
    if (!found) throw new Failure('unauthenticated')
    if (found.isUnderOldRoot) later((store) => rehashToken(store, found, value))
    const { keyring } = keys
    const fresh = { ...found, keyring, hashes: keyring.all.map((root) => hashBearer(root, value)) }
    setBounded(located, maxRemembered, key, fresh)
    return fresh
  }

  function isInGrace(token: ReadyToken, hashes: readonly Buffer[]): boolean {
    const { previousHash, previousUntil } = token
    if (!previousHash || previousUntil === null || previousUntil <= now()) return false
    return hashes.some((candidate) => candidate.equals(previousHash))
  }

  async function authenticateJwt(value: string, ip: string): Promise<Actor> {
    const key = credentialKey(value)
    let known = claims.get(key)
    if (!known || known.exp * 1000 <= now()) {
      claims.delete(key)
      known = await keys.lookTwice(keyIdOf(value) ?? '', async () =>
        verifyJwt(value, keys.findJwtSigner, { issuer: parts.issuer, nowMs: now() }),
      )
      if (!known) throw new Failure('unauthenticated')
      setBounded(claims, maxRemembered, key, known)
    }
    if (known.kind === 'oidc') return federatedActor(await requireIdentity(known.workspace, known.sub), known)
    return jwtActor(await requireToken(known.workspace, known.sub), known, ip)
  }

  async function requireIdentity(workspaceId: string, id: string): Promise<ReadyIdentity> {
    const snapshot = await snapshots.get(workspaceId)
    const identity = await snapshot?.identities.get(id)
    if (!identity) throw new Failure('unauthenticated')
    return identity
  }

  function federatedActor(identity: ReadyIdentity, known: JwtClaims): Actor {
    if (!identity.enabled || known.generation !== identity.generation) throw new Failure('unauthenticated')
    usage.noteIdentity(identity.id, identity.workspaceId, now())
    return identityActor(identity, known.exp * 1000)
  }

  function jwtActor(owned: OwnedToken, known: JwtClaims, ip: string): Actor {
    const { token } = owned
    const isCurrent = known.generation === token.generation
    const isGraced = known.generation === token.generation - 1 && (token.previousUntil ?? 0) > now()
    if (!isCurrent && !isGraced) throw new Failure('unauthenticated')
    return liveActor(owned, ip, { type: 'jwt', generation: known.generation }, known.exp * 1000)
  }

  async function requireToken(workspaceId: string, id: string): Promise<OwnedToken> {
    const snapshot = snapshots.peek(workspaceId) ?? (await snapshots.get(workspaceId))
    const token = snapshot && (snapshot.tokens.peek(id) ?? (await snapshot.tokens.get(id)))
    // A token is valid only while its owner belongs to the workspace.
    if (!snapshot || !token || !snapshot.principals.has(ownerOf(token))) throw new Failure('unauthenticated')
    if (token.serviceAccountId !== null) return { token, proofs: undefined }
    const proofs = proven.peek(token.createdBy) ?? (await proven.get(token.createdBy))
    if (!proofs) throw new Failure('unauthenticated')
    return { token, proofs }
  }

  function liveActor(
    { token, proofs }: OwnedToken,
    ip: string,
    value: { type: 'static' | 'cli-token' | 'jwt'; generation: number },
    ownEnd: number | null,
  ): Actor {
    const at = now()
    if (findRefusal(token, at, ip)) throw new Failure('unauthenticated')
    usage.noteToken(token.id, token.workspaceId, at, ip)
    const endOfGrace = value.generation === token.generation ? null : token.previousUntil
    const expiresAt = earlier(token.expiresAt, earlier(ownEnd, endOfGrace))
    const credential = { ...value, token, expiresAt }
    return { type: 'token', id: token.id, name: token.name, userId: ownerOf(token), ...proofs, credential }
  }

  async function authenticateSession(value: string): Promise<Actor> {
    const key = credentialKey(value)
    const generation = generations
    let live = sessions.get(key)
    // Another node may have seen the session more recently.
    if (!live || isIdle(live)) live = await loadSession(key, value)
    const at = now()
    if (!live || live.session.expiresAt <= at || isIdle(live)) throw new Failure('unauthenticated')
    live.seenAt = at
    usage.noteSession(live.session.id, live.user.id, at)
    const type = live.session.type === 'cli' ? 'cli' : 'session'
    const expiresAt = Math.min(live.session.expiresAt, at + sessionIdleMs[live.session.type])
    const { session, factorId } = live
    const credential = { type, sessionId: session.id, factorId, expiresAt, generation } as const
    const { id, email, proofs } = live.user
    return { type: 'user', id, name: email, userId: id, ...proofs, credential }
  }

  function isIdle(live: LiveSession): boolean {
    return live.seenAt + sessionIdleMs[live.session.type] <= now()
  }

  async function loadSession(key: string, value: string): Promise<LiveSession | undefined> {
    const generation = generations
    const session = await keys.lookTwice(key, () => store.sessions.findByValue(value))
    const account = session && (await store.accounts.find(session.userId))
    if (!session || !account) return undefined
    const factorId = await store.sessionFactors.find(session.id, session.userId)
    // The last use may not be written to the store yet.
    const seenAt = Math.max(session.lastSeenAt, usage.pendingSession(session.id)?.at ?? 0)
    const { id, email } = account
    const live = { session, factorId, user: { id, email, proofs: proofsOf(account) }, seenAt }
    if (session.isUnderOldRoot) later((store) => store.sessions.rehash(session, value))
    // Not cached if sessions were dropped during the load: the row may be gone by now.
    if (generation === generations) setBounded(sessions, maxRemembered, key, live)
    return live
  }

  let generations = 0

  async function rehashToken(store: Store, token: { id: string; workspaceId: string }, value: string): Promise<void> {
    if (!(await store.tokens.rehash(token.id, token.workspaceId, value))) return
    store.changes.append('workspace', token.workspaceId, now())
  }

  return {
    recognise,
    authenticate,
    peekProofs: proven.peek,
    dropUser(userId) {
      generations++
      proven.drop(userId)
      for (const [key, live] of sessions) if (live.user.id === userId) sessions.delete(key)
    },
    clear() {
      generations++
      located.clear()
      sessions.clear()
      claims.clear()
      proven.clear()
    },
    get generation() {
      return generations
    },
  }
}

/** The earlier of two times; null means never. */
const earlier = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : Math.min(a, b))

/** An identity acts for itself, not on behalf of a person. */
export function identityActor(identity: ReadyIdentity, expiresAt: number): Actor {
  const credential = { type: 'oidc', identity, expiresAt } as const
  return { type: 'oidc', id: identity.id, name: identity.name, userId: '', credential }
}

/** Cache key of a credential. A digest, so that a heap dump shows no credentials. */
export function credentialKey(value: string): string {
  return hash('sha256', value, 'base64')
}
