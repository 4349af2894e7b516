/**
 * Carries out a plan in batches. Each batch is written to the ledger before the call, and its outcome after it, so that
 * the next run can follow up after a crash. Creates and updates come before deletes, so that nothing is missing at the
 * target in between.
 */
import type { KeyObject } from 'node:crypto'
import type { SyncRunItem } from '@coffer/contract/sync'
import { type FaultKind, isFault, VendorFault } from '../../../providers/fault.ts'
import type { Op, OpResult, Provider, Remote } from '../../../providers/provider.ts'
import { type RetryOptions, withRetries } from '../../../providers/retry.ts'
import type { Store } from '../../../store/store.ts'
import type { LedgerEntry } from '../../../store/sync/ledger.ts'
import type { Inspection } from '../inspect.ts'
import { writeLedger } from '../ledger.ts'
import { macOf, operationIdOf } from '../mac.ts'
import { foundWords } from '../plan.ts'
import { changes } from './outcome.ts'

export type Push = {
  readonly provider: Provider
  readonly far: Remote
  readonly inspection: Inspection
  readonly macKey: KeyObject
  readonly fence: number
  /** Runs a transaction, which fails once the run has lost its lease on the sync. */
  readonly write: (work: (store: Store) => Promise<void> | void) => Promise<void>
  readonly retry: RetryOptions
  readonly now: () => number
  readonly explain: (fault: VendorFault) => string
  /** Collects the outcome of each name, so that it is known even if an error ends the push. */
  readonly items: SyncRunItem[]
}

/** Faults of a single name: the other names are still pushed. */
const isOfOneName = (fault: VendorFault) => fault.kind === 'invalid' || fault.kind === 'conflict'

/** Faults that mean the vendor did not carry out the request. */
const refusals: ReadonlySet<FaultKind> = new Set(['auth', 'scope', 'gone', 'invalid', 'quota', 'conflict', 'rate'])

/** Returns the fault that ended the push early; undefined if everything was tried. */
export async function pushPlan(syncId: string, push: Push): Promise<VendorFault | undefined> {
  const { inspection, write, items } = push
  const { plan, ledger } = inspection
  const owner = { syncId, macKey: push.macKey }
  const adopted = new Set(plan.adopt)
  let ended: VendorFault | undefined
  /** Stays pending until `finish` has succeeded, so that the next run calls `finish` if this one cannot. */
  let anchor: LedgerEntry | undefined
  const note = (name: string, outcome: SyncRunItem['outcome'], message: string | null = null) =>
    items.push({ name, outcome, message })
  for (const { name, why } of plan.conflict) note(name, 'conflict', why)
  const foundAt = (name: string) => {
    const found = plan.found.get(name)
    return found === undefined ? null : foundWords[found]
  }
  for (const name of plan.drifted) note(name, 'drifted', foundAt(name))

  await write((store) => store.syncLedger.remove(syncId, [...plan.release, ...plan.conflict.map(({ name }) => name)]))
  for (const name of plan.release) note(name, 'released', foundAt(name))

  for (const ops of batchesOf(push)) {
    if (push.retry.signal?.aborted) {
      ended = new VendorFault('transient', 'The run was ended early.')
      break
    }
    const begins = ops.flatMap((op) => begun(op))
    await write((store) => writeLedger(store, owner, begins))
    const applied = await applyWithRetries(push, ops)
    await settle(ops, applied)
    // The outcome of every op is in the ledger now, so the run may end.
    ended ??= applied.fault
    if (ended) break
  }
  if (!ended && items.some(({ outcome }) => changes.has(outcome))) ended = await finish()
  return ended

  async function finish(): Promise<VendorFault | undefined> {
    try {
      await push.far.finish?.()
    } catch (error) {
      if (!isFault(error)) throw error
      return error
    }
    const done = anchor ? [anchor] : []
    if (done.length > 0) await write((store) => writeLedger(store, owner, done))
    return undefined
  }

  /** Picks the anchor: an entry that was just written or, after deletes only, an unchanged one. */
  function anchored(written: readonly LedgerEntry[]): readonly LedgerEntry[] {
    const unchanged = plan.unchanged.flatMap((name) => ledger.get(name) ?? [])
    const chosen = [...written, ...unchanged].find(({ status }) => status === 'synced')
    if (!push.far.finish || anchor || !chosen) return written
    anchor = chosen
    return [...written.filter((entry) => entry !== chosen), { ...chosen, status: 'pending' }]
  }

  /** The ledger entry for an op whose outcome is not known yet. */
  function begun(op: Op): LedgerEntry[] {
    if (op.kind === 'delete') return []
    const entry = ledger.get(op.name)
    const isMarked = inspection.remote?.get(op.name)?.isOurs === true
    // Without a ledger entry only the mark can tell that this sync made it; an entry taken over may have come back.
    const isTakenOver = adopted.has(op.name) && (!isMarked || push.provider.capabilities.marksUpdates === true)
    const known = op.kind === 'create' ? 'created' : (entry?.origin ?? 'created')
    return [
      {
        name: op.name,
        remoteId: idOf(inspection, op.name),
        valueMac: inspection.desired.get(op.name) ?? '',
        mark: null,
        // An entry that someone removed and this run creates again is ours.
        origin: isTakenOver ? 'adopted' : known,
        status: op.kind === 'create' ? 'new' : 'pending',
        updatedAt: push.now(),
      },
    ]
  }

  async function settle(ops: readonly Op[], { results, fault, isUncertain }: Applied): Promise<void> {
    const put: LedgerEntry[] = []
    const remove: string[] = []
    let hasDone = false
    for (const op of ops) {
      const result = results.get(op.name)
      const failure = result && 'fault' in result ? asFault(result.fault) : result ? undefined : (fault ?? unanswered)
      if (!failure) {
        const done: Done = result && !('fault' in result) ? result : { name: op.name }
        if (op.kind === 'delete') remove.push(op.name)
        else put.push(...begun(op).map((entry) => finished(entry, done)))
        hasDone = true
        note(op.name, done.isKept ? 'released' : outcomeOf(op), done.note ?? foundAt(op.name))
        continue
      }
      note(op.name, 'failed', push.explain(failure))
      if (isUncertain || op.kind === 'delete' || !refusals.has(failure.kind)) continue
      const entry = ledger.get(op.name)
      // A refused name leaves the ledger, so that other syncs may use it. If one of several calls succeeded before the
      // refusal, the entry carries our mark, and the next look at the target finds it.
      if (!entry || isStillMissing(entry)) remove.push(op.name)
      // An update may be half done, so its pending note stays, unless the fault concerns this name or a quota.
      else if (isOfOneName(failure) || failure.kind === 'quota') put.push(entry)
    }
    const entries = hasDone ? anchored(put) : put
    await write(async (store) => {
      await writeLedger(store, owner, entries)
      store.syncLedger.remove(syncId, remove)
    })
    const worst = [...results.values()].flatMap((result) => ('fault' in result ? asFault(result.fault) : []))
    ended ??= worst.find((failure) => !isOfOneName(failure))
  }

  /** An earlier run began to create the entry, and it is still missing at the target. */
  function isStillMissing({ name, status }: LedgerEntry): boolean {
    return status === 'new' && inspection.remote?.has(name) === false
  }

  function outcomeOf(op: Op): SyncRunItem['outcome'] {
    if (op.kind === 'delete') return 'deleted'
    if (adopted.has(op.name)) return 'adopted'
    return op.kind === 'create' ? 'created' : 'updated'
  }
}

type Done = Exclude<OpResult, { fault: Error }>

const unanswered = new VendorFault('transient', 'The outcome is unknown.')

const asFault = (error: Error): VendorFault =>
  isFault(error) ? error : new VendorFault('protocol', 'An unexpected error occurred.')

const finished = (entry: LedgerEntry, done: { readonly id?: string; readonly mark?: string }): LedgerEntry => ({
  ...entry,
  remoteId: done.id ?? entry.remoteId,
  mark: done.mark ?? null,
  status: 'synced',
})

type Applied = {
  readonly results: ReadonlyMap<string, OpResult>
  readonly fault?: VendorFault
  /** An attempt ended without an answer, so a later refusal does not tell whether that attempt changed something. */
  readonly isUncertain: boolean
}

/**
 * Retries the ops without a result, because every op may be repeated. A batch that is refused because of one name is
 * split in halves until that name is found.
 */
async function applyWithRetries({ far, retry }: Push, ops: readonly Op[]): Promise<Applied> {
  const results = new Map<string, OpResult>()
  let isUncertain = false
  const withoutResult = (part: readonly Op[]) => part.filter(({ name }) => !results.has(name))

  async function callOnce(rest: readonly Op[]): Promise<void> {
    if (rest.length === 0) return
    try {
      for await (const result of far.apply(rest)) results.set(result.name, result)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      const fault = asFault(error)
      isUncertain ||= fault.kind === 'transient'
      throw fault
    }
  }

  async function apply(part: readonly Op[]): Promise<void> {
    try {
      await withRetries(() => callOnce(withoutResult(part)), retry)
    } catch (error) {
      const rest = withoutResult(part)
      const [only] = rest
      if (!isFault(error) || !isOfOneName(error) || !only) throw error
      if (rest.length === 1) return void results.set(only.name, { name: only.name, fault: error })
      const middle = Math.ceil(rest.length / 2)
      await apply(rest.slice(0, middle))
      await apply(rest.slice(middle))
    }
  }

  try {
    await apply(ops)
    return { results, isUncertain }
  } catch (error) {
    if (!isFault(error)) throw error
    return { results, fault: error, isUncertain }
  }
}

/** Prefers the id just seen: a replaced entry has another id than the one in the ledger. */
const idOf = ({ remote, ledger }: Inspection, name: string) =>
  remote?.get(name)?.id ?? ledger.get(name)?.remoteId ?? null

function* batchesOf({ provider, inspection, macKey, fence }: Push): Generator<Op[]> {
  const { plan, mapped, desired, ledger, remote, takesOver } = inspection
  const { bulk, mixes } = provider.capabilities
  const knownId = (name: string) => {
    const id = idOf(inspection, name)
    return id === null ? {} : { id }
  }
  const ours = (name: string) => {
    const entry = ledger.get(name)
    if (!entry) return {}
    // While an update's outcome is unknown, the values before and after it are both ours. The plan excludes stale ones.
    const isOurValue = (value: string) => entry.status === 'pending' || macOf(macKey, name, value) === entry.valueMac
    return { isOurValue }
  }
  const content = (name: string) => ({
    name,
    value: mapped.desired.get(name) ?? '',
    operationId: operationIdOf(macKey, fence, name, desired.get(name) ?? ''),
  })
  const create = (name: string): Op => ({ kind: 'create', ...content(name) })
  const update = (name: string): Op => {
    const isKnown = (ledger.get(name)?.status ?? 'new') !== 'new'
    const right = takesOver ? { takesOver } : isKnown ? {} : { isUnconfirmed: true as const }
    return { kind: 'update', ...content(name), ...knownId(name), ...ours(name), ...right }
  }
  const writes = [...plan.create.map(create), ...[...plan.adopt, ...plan.update].map(update)]
  const deletes: Op[] = plan.delete.map((name) => {
    const mark = remote?.get(name)?.mark ?? ledger.get(name)?.mark ?? undefined
    return { kind: 'delete', name, ...knownId(name), ...ours(name), ...(mark !== undefined && { mark }) }
  })
  for (const ops of mixes ? [[...writes, ...deletes]] : [writes, deletes]) {
    for (let from = 0; from < ops.length; from += bulk) yield ops.slice(from, from + bulk)
  }
}
