/** Derives the next state of a sync from the outcome of a run, and when it is due again. Pure except for the jitter. */
import type { SyncCounts, SyncRunItem, SyncRunState, SyncState, SyncTrigger } from '@coffer/contract/sync'
import { isFault, VendorFault } from '../../../providers/fault.ts'
import type { SyncRecord } from '../../../store/sync/sync.ts'
import { dayMs, hourMs, minuteMs, secondMs } from '../../time.ts'
import { needsPerson } from '../fault.ts'

const scanEveryMs = 6 * hourMs
const firstBackOffMs = 2 * secondMs
const maxBackOffMs = 15 * minuteMs

/** The outcomes that changed something at the target. */
export const changes: ReadonlySet<SyncRunItem['outcome']> = new Set(['created', 'updated', 'deleted', 'adopted'])

/** Only a person can fix this; with the reason `source`, a changed secret makes the sync due again too. */
export class Blocked extends Error {
  readonly reason: string
  readonly deletes: number

  constructor(reason: 'rights' | 'source' | 'mass_delete' | 'provider', message: string, deletes = 0) {
    super(message)
    this.reason = reason
    this.deletes = deletes
  }
}

/** The run was ended early, through no fault of the sync, which keeps its state and is due again at once. */
export class Interrupted extends Error {}

export type Next = {
  readonly isDone: boolean
  readonly wasRemoving: boolean
  readonly state: SyncState
  readonly reason: string | null
  readonly lastError: string | null
  readonly triggerNext: SyncTrigger
  readonly notBefore: number
  readonly failCount: number
  readonly failingSince: number | null
  readonly lastRunAt: number
  readonly lastOkAt: number | null
  readonly allowedDeletes: number
  readonly scanAt: number | null
  readonly dueAt: number | null
  readonly dueIfChanged: number
}

export function countItems(items: readonly SyncRunItem[], unchanged: number): SyncCounts {
  const count = (...outcomes: string[]) => items.filter(({ outcome }) => outcomes.includes(outcome)).length
  return {
    created: count('created'),
    updated: count('updated', 'adopted'),
    deleted: count('deleted'),
    unchanged,
    conflicts: count('conflict'),
    failed: count('failed'),
  }
}

export function runStateOf(counts: SyncCounts, items: readonly SyncRunItem[], error: unknown): SyncRunState {
  if (error instanceof Interrupted) return 'interrupted'
  const hasDone = counts.created + counts.updated + counts.deleted > 0
  const isFlawed = counts.failed + counts.conflicts > 0 || items.some(({ outcome }) => outcome === 'drifted')
  if (error !== undefined || (counts.failed > 0 && !hasDone)) return hasDone ? 'partial' : 'failed'
  return isFlawed ? 'partial' : 'succeeded'
}

export function nextOf(
  sync: SyncRecord,
  at: number,
  items: readonly SyncRunItem[],
  error: unknown,
  explain: (fault: VendorFault) => string,
): Next {
  // Scans are never planned this far ahead: the clock must have been wrong, so a new time is chosen.
  const isScanned = sync.scanAt === null || sync.scanAt <= at || sync.scanAt > at + 2 * scanEveryMs
  const scanAt = isScanned ? Math.round(at + scanEveryMs * (0.75 + Math.random() / 2)) : (sync.scanAt ?? at)
  const settled: Next = {
    isDone: true,
    wasRemoving: sync.state === 'removing',
    state: 'active',
    reason: null,
    lastError: null,
    triggerNext: 'drift',
    notBefore: 0,
    failCount: 0,
    failingSince: null,
    lastRunAt: at,
    lastOkAt: at,
    allowedDeletes: 0,
    scanAt,
    dueAt: scanAt,
    dueIfChanged: at + sync.quietMs,
  }
  if (error === undefined) return { ...settled, ...complaintOf(items), ...(settled.wasRemoving && removingOn(at)) }
  const stopped: Next = {
    ...settled,
    isDone: false,
    state: 'blocked',
    lastOkAt: null,
    triggerNext: 'change',
    scanAt: null,
    dueAt: null,
  }
  if (error instanceof Interrupted) {
    const { state, reason, lastError, triggerNext, failCount, failingSince, allowedDeletes } = sync
    const before = { state, reason, lastError, triggerNext, failCount, failingSince, allowedDeletes }
    return { ...stopped, ...before, scanAt: sync.scanAt, dueAt: at }
  }
  if (error instanceof Blocked) {
    return { ...stopped, reason: error.reason, lastError: error.message, allowedDeletes: error.deletes }
  }
  const fault = isFault(error) ? error : new VendorFault('protocol', 'An unexpected error occurred in Coffer.')
  const lastError = explain(fault)
  if (needsPerson(fault) && sync.state !== 'removing') {
    const state = fault.kind === 'auth' || fault.kind === 'scope' ? 'needs_reauth' : 'blocked'
    const reason = fault.kind === 'invalid' || fault.kind === 'conflict' ? 'source' : fault.kind
    return { ...stopped, state, reason, lastError }
  }
  // A run that changed something made progress, so its failure is the first one again.
  const failures = items.some(({ outcome }) => changes.has(outcome)) ? 0 : sync.failCount
  const failingSince = failures === 0 ? at : (sync.failingSince ?? at)
  const isHopeless = at - failingSince > dayMs
  const delayMs = isHopeless ? dayMs : Math.max(fault.facts.retryAfterMs ?? 0, backOffMs(failures))
  // Rounded up: never earlier than the vendor asked for, and never at the very time of the failure.
  const againAt = Math.ceil(at + delayMs)
  return {
    ...stopped,
    state: isHopeless ? 'blocked' : 'failing',
    reason: isHopeless ? 'exhausted' : null,
    lastError,
    failCount: failures + 1,
    failingSince,
    allowedDeletes: sync.allowedDeletes,
    triggerNext: sync.triggerNext,
    notBefore: againAt,
    dueAt: againAt,
  }
}

/** Entries that the vendor refused to delete are tried again daily, until they are gone or a person gives up. */
const removingOn = (at: number) =>
  ({ isDone: false, lastOkAt: null, reason: null, triggerNext: 'remove', dueAt: at + dayMs }) as const

/** The message for names that failed or were left alone, in a run without an error of its own. */
function complaintOf(items: readonly SyncRunItem[]): Partial<Next> {
  const failed = items.filter(({ outcome }) => outcome === 'failed')
  const [bad] = failed
  if (bad) {
    const lastError = `${bad.name}: ${bad.message}${failed.length > 1 ? ` And ${failed.length - 1} more.` : ''}`
    return { state: 'blocked', reason: 'source', lastError, lastOkAt: null, scanAt: null, dueAt: null }
  }
  const strange = items.filter(({ outcome }) => outcome === 'conflict' || outcome === 'drifted')
  if (strange.length === 0) return {}
  const names = strange.slice(0, 10).map(({ name }) => name)
  const more = strange.length > names.length ? ` and ${strange.length - names.length} more` : ''
  return {
    lastError: `Not changed at the target, because someone else created, changed or deleted it: ${names.join(', ')}${more}.`,
  }
}

/** Full jitter: syncs that failed together do not retry together. */
function backOffMs(failures: number): number {
  return Math.random() * Math.min(maxBackOffMs, firstBackOffMs * 2 ** Math.min(failures, 20))
}
