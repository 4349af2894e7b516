/** The context that every domain function receives: actor, services, request and run. Nothing is global. */
import type { Config } from '../config.ts'
import type { Log } from '../log.ts'
import type { LongWork } from '../long-work.ts'
import type { Mail } from '../mail.ts'
import type { Outbound } from '../outbound.ts'
import type { ChangeSubject } from '../store/change.ts'
import type { Engine, Transaction } from '../store/engine/sql.ts'
import type { Keys } from '../store/key/key.ts'
import type { ReadStore, Store } from '../store/store.ts'
import { type Actor, anonymous } from './actor.ts'
import type { StrangerRecords } from './audit/anonymous-limit.ts'
import type { ChainMemory } from './audit/chain-memory.ts'
import type { Entry } from './audit/event.ts'
import type { RecordLimit } from './audit/record-limit.ts'
import type { SetupCode } from './auth/setup-code.ts'
import type { SetupCodeFile } from './auth/setup-code-file.ts'
import type { Counts } from './cache/count.ts'
import type { EnvironmentVersions } from './cache/environment-version.ts'
import type { PendingChanges } from './cache/pending-change.ts'
import type { ResponseCache } from './cache/response-cache.ts'
import type { WorkspaceSnapshots } from './cache/workspace-snapshot.ts'
import type { Credentials } from './credential/credential.ts'
import type { Usage } from './credential/usage.ts'
import type { Issuers } from './oidc/issuer.ts'
import { newRun, type Run } from './request-run.ts'
import type { Slots } from './slot-capacity.ts'
import type { SyncStats } from './sync/stat.ts'

export type Services = {
  readonly config: Config
  /**
   * Arguments of Node for a command of this program, in a process of its own with the same settings. Undefined if this
   * process got its settings in another way.
   */
  readonly program: readonly string[] | undefined
  /** Version of the server. */
  readonly version: string
  /** Start of this node. */
  readonly startedAt: number
  readonly setupCode: SetupCode
  readonly setupCodeFile: SetupCodeFile
  readonly engine: Engine
  readonly store: ReadStore
  readonly keys: Keys
  readonly pendingChanges: PendingChanges
  readonly snapshots: WorkspaceSnapshots
  readonly credentials: Credentials
  readonly usage: Usage
  readonly environmentVersions: EnvironmentVersions
  readonly responseCache: ResponseCache
  readonly counts: Counts
  readonly chainMemory: ChainMemory
  readonly slots: Slots
  readonly longWork: LongWork
  /** Undefined if no mail server is configured. */
  readonly mail: Mail | undefined
  readonly issuers: Issuers
  /** Limits the audit entries for refused token exchanges, per workspace. */
  readonly refusals: RecordLimit
  readonly strangers: StrangerRecords
  readonly outbound: Outbound
  readonly syncStats: SyncStats
  /** When the last backup of this process began, whatever the store says: a wrong clock may have written it. */
  readonly lastBackup: { startedAt: number | undefined }
  /** Waits between two calls to a vendor. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

type RequestInfo = {
  readonly id: string
  readonly ip: string
  readonly userAgent: string
  /** Set if access is explained and no address was named: rules about addresses do not apply. */
  readonly hasNoAddress?: boolean
  /** Reserves memory for a response of about this size, or rejects with `overloaded`; undefined if it is free now. */
  reserve(bytes: number): Promise<void> | undefined
  /** True once the client has closed its side: long reads end early, because hardly anybody is left to read them. */
  hasHungUp(): boolean
}

export type Context = Services & { readonly actor: Actor; readonly request: RequestInfo; readonly run: Run }
/** What a transaction does beside its own statements; its link writes it. */
export type Outcome = {
  readonly entries: Entry[]
  /** Chains whose head is signed anew, even without an entry. */
  readonly signed: Set<string>
  /** By subject and id. */
  readonly stale: Map<string, { readonly subject: ChangeSubject; readonly subjectId: string }>
}

export type WriteContext = Context & { readonly store: Store; readonly transaction: Transaction & Outcome }

/** The services that write outcomes. */
export type LinkServices = Pick<
  Services,
  | ('keys' | 'log' | 'now' | 'chainMemory' | 'pendingChanges')
  | ('snapshots' | 'credentials' | 'environmentVersions' | 'counts' | 'setupCodeFile')
>

/** For background work: its results stay in the process, so there is no response to reserve memory for. */
export const noRequest = { ip: '', userAgent: '', reserve: () => undefined, hasHungUp: () => false } as const

/** The actor of a command that is run on the server itself. */
export function asOperator(services: Services): Context {
  const actor = { ...anonymous, type: 'operator', id: 'operator', name: 'operator' } as const
  return { ...services, actor, request: { id: 'command-line', ...noRequest }, run: newRun() }
}
