/** The context that every domain function receives: actor, services, request and run. Nothing is global. */
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
  /** Undefined if no mail server is configured. */
  readonly mail: Mail | undefined
  readonly issuers: Issuers
  /** Limits the audit entries for refused token exchanges, per workspace. */
  readonly refusals: RecordLimit
  readonly strangers: StrangerRecords
  readonly outbound: Outbound
  readonly syncStats: SyncStats
  /** Waits between two calls to a vendor. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

/** The credential of a request, with the fields that its rights depend on. */
export type Credential =
  | { readonly type: 'none' }
  | {
      readonly type: 'session' | 'cli'
      readonly sessionId: string
      readonly expiresAt: number
      /** Generation of the session cache at the look-up; if it differs now, the session must be checked again. */
      readonly generation: number
    }
  | {
      readonly type: 'static' | 'cli-token' | 'jwt'
      readonly token: TokenRecord
      /** Generation of the token value that was presented: during a grace period this can be the previous value. */
      readonly generation: number
      readonly expiresAt: number | null
    }
  | { readonly type: 'oidc'; readonly identity: IdentityRecord; readonly expiresAt: number }

export type Actor = {
  readonly type: 'anonymous' | 'user' | 'token' | 'oidc' | 'operator' | 'sync'
  readonly id: string
  readonly name: string
  /** The person whose membership limits the rights of this actor; empty if there is no such person. */
  readonly userId: string
  /** Set for people only: whether their email address is confirmed. */
  readonly emailVerified?: boolean
  readonly credential: Credential
}

type RequestInfo = {
  readonly id: string
  readonly ip: string
  readonly userAgent: string
  /** Set for public endpoints: the Host header names this machine, and no proxy forwarded the request. */
  readonly isDirect?: boolean
  /** Reserves memory for a response of about this size, or rejects with `overloaded`; undefined if it is free now. */
  reserve(bytes: number): Promise<void> | undefined
}

/** One attempt at a request, from authorisation to response. A request that has to wait for a slot starts a new run. */
export type Run = {
  /** The rights granted so far. They are checked again after every wait. */
  readonly granted: Access[]
  readonly slots: Map<SlotPool, Slot>
  readonly startedOver: number
  /** True once a transaction has committed: repeating the work would then apply it twice. */
  hasCommitted: boolean
}

export const newRun = (startedOver = 0): Run => ({ granted: [], slots: new Map(), startedOver, hasCommitted: false })

export type Context = Services & { readonly actor: Actor; readonly request: RequestInfo; readonly run: Run }
export type WriteContext = Context & { readonly transaction: Transaction }

export const anonymous: Actor = { type: 'anonymous', id: '', name: '', userId: '', credential: { type: 'none' } }

/** For background work: its results stay in the process, so there is no response to reserve memory for. */
export const noRequest = { ip: '', userAgent: '', reserve: () => undefined } as const

/** The actor of a command that is run on the server itself. */
export function asOperator(services: Services): Context {
  const actor = { ...anonymous, type: 'operator', id: 'operator', name: 'operator' } as const
  return { ...services, actor, request: { id: 'command-line', ...noRequest }, run: newRun() }
}

/** The audit chain for events that belong to no workspace, such as logins and changes to accounts. */
export const systemChain = '00000000-0000-0000-0000-000000000000'

export const everything: Scope = { all: true, teams: [], projects: [], environments: [] }

/** The token or identity record that limits a machine to one workspace, permission and scope; undefined for people. */
export function grantOf(credential: Credential): TokenRecord | IdentityRecord | undefined {
  if ('token' in credential) return credential.token
  return 'identity' in credential ? credential.identity : undefined
}

export function credentialPermission(credential: Credential): Permission {
  return grantOf(credential)?.permission ?? 'read-write'
}
