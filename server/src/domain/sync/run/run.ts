/**
 * One run of a sync: check rights, read secrets, plan, push, record the outcome. A run compares the current state with
 * the target, so it can be killed at any point and started again.
 */
import type { SyncRunItem, SyncTrigger } from '@coffer/contract/sync'
import { newId } from '../../../crypto/id.ts'
import { isFailure } from '../../../failure.ts'
import { traceOf } from '../../../log.ts'
import { isFault, VendorFault } from '../../../providers/fault.ts'
import type { Values } from '../../../providers/provider.ts'
import { withRetries } from '../../../providers/retry.ts'
import type { SyncRunRecord } from '../../../store/sync/run.ts'
import type { ClaimedSync, SealedSync } from '../../../store/sync/sync.ts'
import type { EnvironmentAccess } from '../../access/access.ts'
import { findGranted } from '../../access/on-behalf.ts'
import { findClosure } from '../../access/policy.ts'
import { record } from '../../audit/record.ts'
import { type Context, noRequest, type Services } from '../../context.ts'
import { leaseMs } from '../../lease.ts'
import { newRun } from '../../request-run.ts'
import { namePlaces } from '../../secret/reference/follow.ts'
import { runInBackground } from '../../slot.ts'
import { minuteMs } from '../../time.ts'
import { inQuietTransaction, inTransaction } from '../../transaction.ts'
import { connectTo, findProvider } from '../connection.ts'
import { lostRights } from '../entity.ts'
import { explainFault, secretTextsOf } from '../fault.ts'
import { type Inspection, inspectTarget, namedToAll } from '../inspect.ts'
import { macKeyOf, readLedger } from '../ledger.ts'
import { isMassDelete } from '../plan.ts'
import { createScrubber, type Scrubber } from '../scrubber.ts'
import { readSource, type Source } from '../source.ts'
import { endDeadRuns, markOf } from './dead.ts'
import { leaseSync, type SyncLease } from './lease.ts'
import { Blocked, changes, countItems, Interrupted, nextOf, runStateOf } from './outcome.ts'
import { pushPlan } from './push.ts'

const keptRuns = 200
/** A slow or endless target must not keep other syncs from running. */
const maxRunMs = 15 * minuteMs
const tooSlow =
  'The run took more than 15 minutes and changed nothing: the service is too slow, or its lists are endless.'

/** Claims the next due sync, except in the given workspaces. Checks without a transaction first: mostly none is due. */
export async function claimSync(
  services: Services,
  exceptOf: readonly string[] = [],
): Promise<ClaimedSync | undefined> {
  const at = services.now()
  if (!(await services.store.syncs.hasDue(at))) return undefined
  return inQuietTransaction(services, 'sync-claim', async (store) => {
    await endDeadRuns(services, store, at)
    return store.syncs.claim(markOf(newId(), at), at + leaseMs, exceptOf)
  })
}

/** Facts about a run, known even if an error ends it. */
type Report = {
  readonly startedAt: number
  /** The outcome of each name. */
  readonly items: SyncRunItem[]
  /** Number of names that were up to date already. */
  unchanged: number
  /** Hides the values that no error message may contain. */
  readonly scrubber: Scrubber
}

export async function runSync(services: Services, sync: ClaimedSync, signal: AbortSignal): Promise<void> {
  const ctx: Context = {
    ...services,
    actor: { type: 'sync', id: sync.id, name: sync.name, userId: sync.createdBy, credential: { type: 'none' } },
    request: { id: newId(), ...noRequest },
    run: newRun(),
  }
  const report: Report = { startedAt: sync.run.at, items: [], unchanged: 0, scrubber: createScrubber() }
  const overdue = AbortSignal.timeout(maxRunMs)
  const early = AbortSignal.any([signal, overdue])
  const lease = leaseSync(ctx, sync)
  let error: unknown
  try {
    error = await attempt(ctx, sync, lease, AbortSignal.any([early, lease.lost]), report)
  } catch (caught) {
    error = caught
  } finally {
    await lease.stopRenewing()
  }
  const isEndedEarly = lease.lost.aborted || (early.aborted && isFault(error, 'transient'))
  // A run that got nowhere would get nowhere again, and nobody would know why.
  const isStuck = !lease.lost.aborted && !signal.aborted && !report.items.some(({ outcome }) => changes.has(outcome))
  if (error !== undefined && isEndedEarly) error = isStuck ? new VendorFault('transient', tooSlow) : new Interrupted()
  await conclude(ctx, sync, lease, report, error).catch((failure) =>
    ctx.log.error('the outcome of a sync run could not be saved', { syncId: sync.id, ...traceOf(failure) }),
  )
}

/** Returns or throws the fault that ended the run early; undefined if everything was tried. */
async function attempt(
  ctx: Context,
  sync: SealedSync,
  lease: SyncLease,
  signal: AbortSignal,
  report: Report,
): Promise<VendorFault | undefined> {
  const { scrubber } = report
  const { live } = await ctx.store.syncs.open(sync)
  const provider = await findProvider(sync.provider)
  if (!live || !provider) throw new Blocked('provider', 'This provider is no longer supported.')
  scrubber.hide(secretTextsOf(provider, live.credential))
  const isRemoval = sync.state === 'removing'
  // Inside, because rights must be looked up again after every wait for a slot.
  const { access, source } = await runInBackground(ctx, async (ctx) => {
    const access = await findGranted(ctx, sync, live.scopes)
    if (!access && !isRemoval) throw new Blocked('rights', lostRights)
    if (!access || isRemoval) return { access, source: emptySource }
    const closure = findClosure(access.snapshot.policy)
    // The reason lets it go on by itself once the workspace is opened.
    if (closure !== undefined) throw new Blocked('source', closure)
    ctx.run.granted.push(access)
    return { access, source: await readWhole(ctx, sync, lease, access, live.mapping) }
  })
  scrubber.hide(source.secrets.values())
  const macKey = macKeyOf(live.macKey)
  const ledger = await readLedger(ctx.store, { syncId: sync.id, macKey })
  const far = provider.connect(await connectTo({ ...ctx, outbound: lease.outbound }, provider, sync, live, signal))
  const intent = {
    sync: isRemoval ? { ...sync, lastOkAt: sync.lastOkAt ?? 0 } : sync,
    settings: live,
    macKey,
    ledger,
    repairs: repairing.has(sync.triggerNext),
    mayName: namedToAll(sync),
    // A change just before a scheduled scan must not replace the scan.
    looks: looking.has(sync.triggerNext) || (sync.scanAt !== null && sync.scanAt <= ctx.now()),
  }
  const retry = { sleep: ctx.sleep, signal }
  const inspection = await withRetries(() => inspectTarget(ctx, provider, far, source, intent), retry)
  // An entry that holds all secrets may be quoted as a whole, and encoded so that no single one is recognised.
  if (live.mapping.mode !== 'per-key') scrubber.hide(inspection.mapped.desired.values())
  if (!isRemoval) {
    refuseProblems(inspection)
    const { plan } = inspection
    if (isMassDelete(plan, inspection.ledger, sync.allowedDeletes)) {
      const count = plan.delete.length
      throw new Blocked(
        'mass_delete',
        `This run would delete ${count} of ${ledger.length} entries at the target, so nothing was done. Check the plan, and resume the sync if this is intended.`,
        count,
      )
    }
  }
  await begin(ctx, sync, lease, access, inspection, source)
  report.unchanged = inspection.plan.unchanged.length
  return pushPlan(sync.id, {
    provider,
    far,
    inspection,
    macKey,
    fence: sync.fence,
    write: lease.write,
    retry,
    now: ctx.now,
    explain: (fault) => explainFault(provider.name, fault, scrubber, tellingOf(sync)),
    items: report.items,
  })
}

/** Triggers by a person, which also restore entries that someone else has changed. */
const repairing: ReadonlySet<SyncTrigger> = new Set<SyncTrigger>(['manual', 'resume'])
const looking: ReadonlySet<SyncTrigger> = new Set<SyncTrigger>([
  'first',
  'settings',
  'manual',
  'resume',
  'drift',
  'remove',
])

const tellingOf = ({ state }: SealedSync) => (state === 'removing' ? 'removal' : 'kept')

const emptySource: Source = {
  secrets: new Map(),
  environmentIds: [],
  referencedBy: () => [],
  refusal: undefined,
}

/**
 * Registers every environment that was read, so that its changes make the sync due. After a new one it reads again: a
 * change between the first read and the registration would get lost.
 */
async function readWhole(
  ctx: Context,
  sync: SealedSync,
  lease: SyncLease,
  access: EnvironmentAccess,
  mapping: Values,
): Promise<Source> {
  const source = await readSource(ctx, access, mapping).catch((error) => {
    // The source is too large to read: a retry would not help.
    throw isFailure(error, 'invalid') ? new Blocked('source', error.message) : error
  })
  const known = new Set(await ctx.store.syncSources.list(sync.id))
  const wanted = new Set(source.environmentIds)
  if (known.symmetricDifference(wanted).size > 0) {
    await lease.write((store) => store.syncSources.set(sync.id, source.environmentIds))
    if (!wanted.isSubsetOf(known)) return readWhole(ctx, sync, lease, access, mapping)
  }
  if (source.refusal) throw new Blocked('source', source.refusal.kept)
  return source
}

function refuseProblems({ mapped: { problems } }: Inspection): void {
  const [first] = problems
  if (!first) return
  const more = problems.length > 1 ? ` And ${problems.length - 1} more: see the plan of the sync.` : ''
  throw new Blocked('source', `${first.name}: ${first.problem}${more}`)
}

/** Records the names about to be pushed, and the values they include by reference, before anything is sent. */
async function begin(
  ctx: Context,
  sync: SealedSync,
  lease: SyncLease,
  access: EnvironmentAccess | undefined,
  { plan, mapped }: Inspection,
  { referencedBy }: Source,
): Promise<void> {
  const written = [...plan.create, ...plan.adopt, ...plan.update]
  const places = referencedBy(written.flatMap((name) => mapped.sources.get(name) ?? []))
  const referenced = access ? namePlaces(access, places) : []
  const after = {
    ...(plan.create.length > 0 && { create: plan.create }),
    ...(plan.update.length + plan.adopt.length > 0 && { update: [...plan.adopt, ...plan.update] }),
    ...(plan.delete.length > 0 && { delete: plan.delete }),
    ...(referenced.length > 0 && { referenced }),
  }
  if (Object.keys(after).length === 0) return
  await inTransaction(ctx, sync.workspaceId, async (ctx) => {
    await lease.renew(ctx.store)
    record(ctx, {
      chain: sync.workspaceId,
      action: 'PUSH',
      entity: { type: 'sync', id: sync.id, name: sync.name },
      projectId: sync.projectId,
      ...(access && {
        environmentId: access.environment.id,
        environmentIds: [access.environment.id, ...places.map(({ environmentId }) => environmentId)],
      }),
      after,
    })
  })
}

async function conclude(
  ctx: Context,
  sync: ClaimedSync,
  lease: SyncLease,
  { startedAt, items, unchanged, scrubber }: Report,
  error: unknown,
): Promise<void> {
  const at = ctx.now()
  const vendor = (await findProvider(sync.provider))?.name ?? sync.provider
  const counts = countItems(items, unchanged)
  const next = nextOf(sync, at, items, error, (fault) => explainFault(vendor, fault, scrubber, tellingOf(sync)))
  const state = runStateOf(counts, items, error)
  ctx.syncStats.runs[state]++
  const isExpected = isFault(error) || error instanceof Blocked || error instanceof Interrupted
  if (error !== undefined && !isExpected) {
    ctx.log.error('a sync failed', { syncId: sync.id, provider: sync.provider, ...traceOf(error) })
  }
  const isRemoved = sync.state === 'removing' && error === undefined && counts.failed === 0
  const isWorthTelling = items.length > 0 || error !== undefined || sync.triggerNext !== 'change'
  const run: SyncRunRecord = {
    id: sync.run.id,
    syncId: sync.id,
    cause: sync.failCount > 0 && sync.triggerNext === 'change' ? 'retry' : sync.triggerNext,
    state,
    startedAt,
    endedAt: at,
    counts,
    // An interrupted run has no error of its own; the sync keeps that of an earlier run.
    error: error instanceof Interrupted ? null : next.lastError,
    attempts: sync.failCount + 1,
    items,
  }
  await inQuietTransaction(ctx, `sync:${sync.id}`, async (store) => {
    const isHeld = await store.syncs.finish(sync, next)
    // A decision that a person made in the meantime stands, but the run is still recorded.
    if (!isHeld && !(await lease.release(store, at))) return
    if (isHeld && isRemoved) return void (await store.syncs.remove(sync.id, sync.workspaceId))
    if (!isWorthTelling) return
    store.syncRuns.insert(run)
    store.syncRuns.trim(sync.id, keptRuns)
  })
}
