/**
 * One run of a sync: rights, secrets, plan, push, and what follows from how it went. A run is the state of now against
 * the state at the target; it can be killed anywhere and begun again.
 */
import type { SyncRunItem, SyncTrigger } from '@coffer/contract/sync'
import { newId } from '../crypto/id.ts'
import { isFailure } from '../failure.ts'
import { traceOf } from '../log.ts'
import { isFault } from '../providers/fault.ts'
import { patiently } from '../providers/patience.ts'
import type { Store } from '../store/store.ts'
import type { SealedSync } from '../store/sync.ts'
import type { SyncRunRecord } from '../store/sync-run.ts'
import { type EnvironmentAccess, findGranted } from './access.ts'
import { record } from './audit.ts'
import type { Context, Services } from './context.ts'
import { namePlaces } from './secret.ts'
import { explainFault, secretsOf } from './sync-fault.ts'
import { macKeyOf, readLedger } from './sync-ledger.ts'
import { lookAhead, type Outlook } from './sync-look.ts'
import { Blocked, countItems, Interrupted, nextOf, runStateOf } from './sync-outcome.ts'
import { isMassDelete } from './sync-plan.ts'
import { pushPlan } from './sync-push.ts'
import { connectTo, findProvider, readSource, type Source } from './sync-source.ts'
import { minuteMs, secondMs } from './time.ts'
import { inQuietTransaction, inTransaction } from './transaction.ts'

const leaseMs = minuteMs
const renewEveryMs = 20 * secondMs
const keptRuns = 200
/** Others wait for their turn: a target that is slow, or has no end, must not keep the place for itself. */
const maxRunMs = 15 * minuteMs

/** Somebody else works at it, or it is gone: whatever this run still wanted is no longer its business. */
class LostLease extends Error {}
/** The next sync that is due, now ours for a while. Asked without a transaction first: mostly there is none. */
export async function claimSync(services: Services): Promise<SealedSync | undefined> {
  const at = services.now()
  if (!(await services.store.syncs.hasDue(at))) return undefined
  return inQuietTransaction(services, 'sync-claim', (store) => store.syncs.claim(at, at + leaseMs))
}

/** What became of the names that a run had to do with, how many were right already, and what stopped it, if anything did. */
type End = { readonly items: readonly SyncRunItem[]; readonly unchanged: number; readonly error?: unknown }

export async function runSync(services: Services, sync: SealedSync, signal: AbortSignal): Promise<void> {
  const ctx: Context = {
    ...services,
    actor: { type: 'sync', id: sync.id, name: sync.name, userId: sync.createdBy, credential: { type: 'none' } },
    request: { id: newId(), ip: '', userAgent: '' },
  }
  const startedAt = ctx.now()
  const early = AbortSignal.any([signal, AbortSignal.timeout(maxRunMs)])
  const lost = new AbortController()
  const beat = () => renew(ctx, sync).catch((error) => error instanceof LostLease && lost.abort())
  const heartbeat = setInterval(() => void beat(), renewEveryMs)
  heartbeat.unref()
  const secrets: string[] = []
  let end: End
  try {
    end = await attempt(ctx, sync, AbortSignal.any([early, lost.signal]), secrets)
  } catch (error) {
    end = { items: [], unchanged: 0, error }
  } finally {
    clearInterval(heartbeat)
  }
  if (end.error instanceof LostLease) return
  if (early.aborted && isFault(end.error, 'transient')) end = { ...end, error: new Interrupted() }
  await conclude(ctx, sync, startedAt, end, secrets).catch((error) =>
    ctx.log.error('a sync could not be written down', { syncId: sync.id, ...traceOf(error) }),
  )
}

async function attempt(ctx: Context, sync: SealedSync, signal: AbortSignal, secrets: string[]): Promise<End> {
  const { live } = await ctx.store.syncs.open(sync)
  const provider = await findProvider(sync.provider)
  if (!live || !provider) throw new Blocked('provider', 'This kind of target is not known here any more.')
  secrets.push(...secretsOf(provider, live.credential))
  const isRemoval = sync.state === 'removing'
  const access = await findGranted(ctx, sync, live.scopes)
  if (!access && !isRemoval) throw new Blocked('rights', lostRights)
  const source = access && !isRemoval ? await readWhole(ctx, sync, access) : emptySource
  secrets.push(...source.secrets.values())
  const macKey = macKeyOf(live.macKey)
  const ledger = await readLedger(ctx.store, { syncId: sync.id, macKey })
  const far = provider.connect(connectTo(ctx, provider, sync.id, live, signal))
  const intent = {
    sync: isRemoval ? { ...sync, lastOkAt: sync.lastOkAt ?? 0 } : sync,
    settings: live,
    macKey,
    ledger,
    repairs: repairing.has(sync.triggerNext),
    // A change that comes just before a scan does not replace it.
    looks: looking.has(sync.triggerNext) || (sync.scanAt !== null && sync.scanAt <= ctx.now()),
  }
  const patience = { sleep: ctx.sleep, signal }
  const outlook = await patiently(() => lookAhead(ctx, provider, far, source, intent), patience)
  if (!isRemoval) {
    refuseProblems(outlook)
    const { plan, desired } = outlook
    if (isMassDelete(plan, ledger.length, desired.size, sync.allowedDeletes)) {
      const count = plan.delete.length
      throw new Blocked(
        'mass_delete',
        `It would delete ${count} of ${ledger.length} entries at the target; nothing was done. Look at its plan; resume it if that is meant.`,
        count,
      )
    }
  }
  await begin(ctx, sync, access, outlook, source)
  const pushed = await pushPlan(sync.id, {
    provider,
    far,
    outlook,
    macKey,
    fence: sync.fence,
    write: (work) => whileHeld(ctx, sync, work),
    patience,
    now: ctx.now,
    explain: (fault) => explainFault(provider.name, fault, secrets),
  })
  return { items: pushed.items, unchanged: outlook.plan.unchanged.length, error: pushed.fault }
}

/** Asked for by a person: then also what somebody else has changed is put back. */
const repairing = new Set<SyncTrigger>(['manual', 'resume'])
const looking = new Set<SyncTrigger>(['first', 'manual', 'resume', 'drift', 'remove'])

const lostRights =
  'Whoever set it up may no longer read its environment: somebody who may must go through its steps again.'

const emptySource: Source = {
  secrets: new Map(),
  environmentIds: [],
  referencedBy: () => [],
  refusal: undefined,
}

async function readWhole(ctx: Context, sync: SealedSync, access: EnvironmentAccess): Promise<Source> {
  const source = await readSource(ctx, access).catch((error) => {
    // It is too large: trying again would not help.
    throw isFailure(error, 'invalid') ? new Blocked('source', error.message) : error
  })
  if (source.refusal === undefined) return source
  // What would mend it may be written in any of them: a change there sets the sync going again.
  await whileHeld(ctx, sync, (store) => store.syncs.setSources(sync.id, source.environmentIds))
  throw new Blocked('source', source.refusal.kept)
}

function refuseProblems({ mapped: { problems } }: Outlook): void {
  const [first] = problems
  if (!first) return
  const more = problems.length > 1 ? ` And ${problems.length - 1} more: look at its plan.` : ''
  throw new Blocked('source', `${first.name}: ${first.problem}${more}`)
}

/** In the trail before anything leaves: what is about to be pushed, by name, and what else is in it by way of references. */
async function begin(
  ctx: Context,
  sync: SealedSync,
  access: EnvironmentAccess | undefined,
  { plan, mapped }: Outlook,
  { environmentIds, referencedBy }: Source,
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
  const hasWork = Object.keys(after).length > 0
  if (!hasWork) return whileHeld(ctx, sync, (store) => store.syncs.setSources(sync.id, environmentIds))
  await inTransaction(ctx, sync.workspaceId, async (ctx) => {
    if (!(await ctx.store.syncs.renew(sync.id, sync.fence, ctx.now() + leaseMs))) throw new LostLease()
    await ctx.store.syncs.setSources(sync.id, environmentIds)
    await record(ctx, {
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

async function whileHeld(ctx: Context, sync: SealedSync, work: (store: Store) => Promise<void>): Promise<void> {
  await inQuietTransaction(ctx, `sync:${sync.id}`, async (store) => {
    if (!(await store.syncs.renew(sync.id, sync.fence, ctx.now() + leaseMs))) throw new LostLease()
    await work(store)
  })
}

const renew = (ctx: Context, sync: SealedSync) => whileHeld(ctx, sync, async () => undefined)

async function conclude(
  ctx: Context,
  sync: SealedSync,
  startedAt: number,
  { items, unchanged, error }: End,
  secrets: readonly string[],
): Promise<void> {
  const at = ctx.now()
  const vendor = (await findProvider(sync.provider))?.name ?? sync.provider
  const counts = countItems(items, unchanged)
  const next = nextOf(sync, at, items, error, (fault) => explainFault(vendor, fault, secrets))
  const state = runStateOf(counts, items, error)
  ctx.syncStats.runs[state]++
  const isExpected = isFault(error) || error instanceof Blocked || error instanceof Interrupted
  if (error !== undefined && !isExpected) {
    ctx.log.error('a sync failed', { syncId: sync.id, provider: sync.provider, ...traceOf(error) })
  }
  const isRemoved = sync.state === 'removing' && error === undefined
  const isWorthTelling = items.length > 0 || error !== undefined || sync.triggerNext !== 'change'
  const run: SyncRunRecord = {
    id: newId(),
    syncId: sync.id,
    cause: sync.failCount > 0 && sync.triggerNext === 'change' ? 'retry' : sync.triggerNext,
    state,
    startedAt,
    endedAt: at,
    counts,
    error: next.lastError,
    attempts: sync.failCount + 1,
    items,
  }
  await inQuietTransaction(ctx, `sync:${sync.id}`, async (store) => {
    if (!(await store.syncs.finish(sync, next))) return
    if (isRemoved) return void (await store.syncs.remove(sync.id, sync.workspaceId))
    if (!isWorthTelling) return
    await store.syncRuns.insert(run)
    await store.syncRuns.trim(sync.id, keptRuns)
  })
}
