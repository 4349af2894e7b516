/** What every domain function is given: who asks, where things are kept, what time it is. Nothing is global. */
import type { Permission, Scope } from '@coffer/contract/field'
import type { Config } from '../config.ts'
import type { Log } from '../log.ts'
import type { Mail } from '../mail.ts'
import type { Outbound } from '../outbound.ts'
import type { Slot, SlotPool } from '../slot-pool.ts'
import type { Engine, Transaction } from '../store/engine/sql.ts'
import type { Keys } from '../store/key.ts'
import type { IdentityRecord } from '../store/oidc.ts'
import type { Store } from '../store/store.ts'
import type { TokenRecord } from '../store/token.ts'
import type { Access } from './access/access.ts'
import type { SetupCode } from './account/setup-code.ts'
import type { StoredLists } from './audit/key-list.ts'
import type { ReadRecorder } from './audit/read.ts'
import type { RecordLimit } from './audit/record-limit.ts'
import type { StrangerRecords } from './audit/stranger.ts'
import type { Counts } from './cache/count.ts'
import type { Epochs } from './cache/environment-version.ts'
import type { ResponseCache } from './cache/response-cache.ts'
import type { Pictures } from './cache/workspace-snapshot.ts'
import type { Credentials } from './credential/credential.ts'
import type { Usage } from './credential/usage.ts'
import type { Issuers } from './oidc/issuer.ts'
import type { Slots } from './slot.ts'
import type { SyncStats } from './sync/stat.ts'

export type Services = {
  readonly config: Config
  readonly setupCode: SetupCode
  readonly engine: Engine
  readonly store: Store
  readonly keys: Keys
  readonly pictures: Pictures
  readonly credentials: Credentials
  readonly usage: Usage
  readonly epochs: Epochs
  readonly answers: ResponseCache
  readonly counts: Counts
  readonly storedLists: StoredLists
  readonly reads: ReadRecorder
  readonly slots: Slots
  /** Undefined where no mail server is set. */
  readonly mail: Mail | undefined
  readonly issuers: Issuers
  /** Refused exchanges, by workspace. */
  readonly refusals: RecordLimit
  readonly strangers: StrangerRecords
  readonly outbound: Outbound
  readonly syncStats: SyncStats
  /** Waiting, between calls to a vendor. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

/** The credential behind a request, as far as rights depend on it. */
export type Credential =
  | { readonly type: 'none' }
  | {
      readonly type: 'session' | 'cli'
      readonly sessionId: string
      readonly expiresAt: number
      /** Of the memory of sessions that it was found in. */
      readonly generation: number
    }
  | {
      readonly type: 'static' | 'cli-token' | 'jwt'
      readonly token: TokenRecord
      /** Of the value that was shown: within a grace it is the one before the token's own. */
      readonly generation: number
      readonly expiresAt: number | null
    }
  | { readonly type: 'oidc'; readonly identity: IdentityRecord; readonly expiresAt: number }

export type Actor = {
  readonly type: 'anonymous' | 'user' | 'token' | 'oidc' | 'operator' | 'sync'
  readonly id: string
  readonly name: string
  /** The person whose membership bounds what may be done; empty where no person stands behind it. */
  readonly userId: string
  /** Of a person: whether their address is confirmed. */
  readonly emailVerified?: boolean
  readonly credential: Credential
}

type RequestInfo = {
  readonly id: string
  readonly ip: string
  readonly userAgent: string
  /** Known for public endpoints: the request names this machine as its host, and no proxy has passed it on. */
  readonly isDirect?: boolean
  /** Reserves room for a response of about this size, or rejects as `overloaded`; undefined where there is room. */
  reserve(bytes: number): Promise<void> | undefined
}

/** One run of a request's work, from its authorisation to its answer. A request that has to wait begins a new run. */
export type Run = {
  /** The rights that were granted so far. They are confirmed after every wait. */
  readonly granted: Access[]
  readonly slots: Map<SlotPool, Slot>
  readonly startedOver: number
  /** True once a transaction has committed: from then on the work cannot begin again. */
  hasCommitted: boolean
}

export const newRun = (startedOver = 0): Run => ({ granted: [], slots: new Map(), startedOver, hasCommitted: false })

export type Context = Services & { readonly actor: Actor; readonly request: RequestInfo; readonly run: Run }
export type WriteContext = Context & { readonly transaction: Transaction }

export const anonymous: Actor = { type: 'anonymous', id: '', name: '', userId: '', credential: { type: 'none' } }

/** For work that no request has asked for: its results stay in the process. */
export const noRequest = { ip: '', userAgent: '', reserve: () => undefined } as const

/** Whoever has the machine itself, and runs a command on it. */
export function asOperator(services: Services): Context {
  const actor = { ...anonymous, type: 'operator', id: 'operator', name: 'operator' } as const
  return { ...services, actor, request: { id: 'command-line', ...noRequest }, run: newRun() }
}

/** What belongs to no workspace (accounts, logins) is recorded in a chain of its own. */
export const systemChain = '00000000-0000-0000-0000-000000000000'

export const everything: Scope = { all: true, teams: [], projects: [], environments: [] }

/** The row that bounds a machine's rights to one workspace, a permission and a scope; undefined for people. */
export function grantOf(credential: Credential): TokenRecord | IdentityRecord | undefined {
  if ('token' in credential) return credential.token
  return 'identity' in credential ? credential.identity : undefined
}

export function credentialPermission(credential: Credential): Permission {
  return grantOf(credential)?.permission ?? 'read-write'
}
