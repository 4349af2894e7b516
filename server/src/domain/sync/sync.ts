/** The syncs of a project: their settings, state and runs, and the commands to run, pause, resume or delete them. */
import type { ProjectPath, Transfer } from '@coffer/contract/field'
import type {
  Sync,
  SyncDetail,
  SyncPath,
  SyncPlan,
  SyncProvider,
  SyncRemoval,
  SyncRun,
  SyncRunDetail,
  SyncRunPath,
  SyncRunQuery,
  SyncState,
} from '@coffer/contract/sync'
import { Failure } from '../../failure.ts'
import { isFault } from '../../providers/fault.ts'
import type { SyncRunSummary } from '../../store/sync/run.ts'
import type { SealedSync, SyncRecord } from '../../store/sync/sync.ts'
import type { ServiceAccount } from '../../store/workspace/service-account.ts'
import {
  type ProjectAccess,
  reachesEnvironments,
  reauthorise,
  requireProject,
  requireWorkspace,
} from '../access/access.ts'
import { findGranted } from '../access/on-behalf.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { decodeIdCursor } from '../cursor.ts'
import { defaultPageLength, type Page, pageOf } from '../page.ts'
import { servicePrincipal } from '../principal.ts'
import { toScopeSet } from '../scope.ts'
import { iso, maybeIso } from '../time.ts'
import { inTransaction } from '../transaction.ts'
import { connectTo, loadRegistry, requireProvider } from './connection.ts'
import { isSyncVisible, lostRights, syncEntity } from './entity.ts'
import { answerFault } from './fault.ts'
import { inspectTarget, namedTo } from './inspect.ts'
import { macKeyOf, readLedger } from './ledger.ts'
import { toPlan } from './setup/review.ts'
import { requireSource } from './source.ts'

export async function listSyncProviders(ctx: Context): Promise<SyncProvider[]> {
  const { providers, announced } = await loadRegistry()
  const all = [
    ...providers.map((provider) => ({ ...provider, soon: false })),
    ...announced.map((provider) => ({ ...provider, soon: true })),
  ]
  return all.map(({ slug, name, website, docs, soon }) => ({
    id: slug,
    slug,
    defaultName: name,
    logo: `${ctx.config.publicUrl}/logo/${slug}.svg`,
    docs,
    website,
    soon,
  }))
}

export async function listSyncs(ctx: Context, path: ProjectPath): Promise<Sync[]> {
  const access = await requireProject(ctx, path, 'sync:read')
  const syncs = await ctx.store.syncs.list(access.project.id, access.snapshot.workspace.id)
  return syncs.filter((sync) => isSyncVisible(access, sync)).map(toSync)
}

function toSync(sync: SyncRecord): Sync {
  const { id, provider, name, state, environmentId, target, lastError } = sync
  return {
    id,
    provider,
    name,
    state,
    environmentId,
    target,
    lastRunAt: maybeIso(sync.lastRunAt),
    lastError,
    nextRunAt: maybeIso(sync.dueAt),
    createdAt: iso(sync.createdAt),
  }
}

type Found = { readonly sync: SealedSync; readonly access: ProjectAccess }

async function requireSync(ctx: Context, path: SyncPath, permission: 'sync:read' | 'sync:write'): Promise<Found> {
  const access = await requireProject(ctx, path, permission)
  const sync = await ctx.store.syncs.find(path.id.toLowerCase())
  if (sync?.projectId !== access.project.id || !isSyncVisible(access, sync)) throw new Failure('notFound')
  return { sync, access }
}

export async function readSync(ctx: Context, path: SyncPath): Promise<SyncDetail> {
  const { sync } = await requireSync(ctx, path, 'sync:read')
  const { live } = await ctx.store.syncs.open(sync)
  const mapping = { ...live?.mapping, ...live?.options }
  return { ...toSync(sync), mapping, account: live?.account ?? null, createdById: sync.createdBy }
}

/** Plans with the rights of whoever the sync belongs to, as a run does. */
export async function planSyncNow(ctx: Context, path: SyncPath): Promise<SyncPlan> {
  const { sync, access: asker } = await requireSync(ctx, path, 'sync:write')
  const { live } = await ctx.store.syncs.open(sync)
  if (!live) throw new Failure('conflict', 'This sync is not set up yet: go through its steps first.')
  if (sync.state === 'removing') throw new Failure('conflict', 'This sync is being removed.')
  const access = await findGranted(ctx, sync, live.scopes)
  if (!access) throw new Failure('conflict', lostRights)
  const provider = await requireProvider(sync.provider)
  const source = await requireSource(ctx, access, live.mapping, asker)
  const far = provider.connect(await connectTo(ctx, provider, sync, live))
  const macKey = macKeyOf(live.macKey)
  const ledger = await readLedger(ctx.store, { syncId: sync.id, macKey })
  try {
    const intent = { sync, settings: live, macKey, ledger, repairs: true, looks: true, mayName: namedTo(asker) }
    return toPlan(await inspectTarget(ctx, provider, far, source, intent))
  } catch (error) {
    if (!isFault(error)) throw error
    throw answerFault(provider, live.credential, error, (explanation) => new Failure('conflict', explanation))
  }
}

export async function runSyncNow(ctx: Context, path: SyncPath): Promise<void> {
  await change(ctx, path, ['active', 'failing', 'blocked'], 'run', (sync, at) => ({
    // Only `resume` confirms a mass delete, so running a blocked sync takes back the permission for it.
    ...(sync.state !== 'blocked' && { state: sync.state }),
    ...(sync.state === 'blocked' && { state: 'active', reason: null, allowedDeletes: 0 }),
    triggerNext: 'manual',
    dueAt: at,
    notBefore: 0,
  }))
}

export async function pauseSync(ctx: Context, path: SyncPath): Promise<void> {
  await change(ctx, path, ['active', 'failing', 'blocked', 'needs_reauth'], 'pause', () => ({
    state: 'paused',
    reason: null,
    dueAt: null,
    allowedDeletes: 0,
  }))
}

/** For a paused sync, or after a person has reviewed what blocked it. Confirms the deletes that it was blocked for. */
export async function resumeSync(ctx: Context, path: SyncPath): Promise<void> {
  await change(ctx, path, ['paused', 'failing', 'blocked', 'needs_reauth'], 'resume', (_sync, at) => ({
    state: 'active',
    reason: null,
    lastError: null,
    triggerNext: 'resume',
    dueAt: at,
    notBefore: 0,
    failCount: 0,
    failingSince: null,
  }))
}

/** Gives a sync to a service account, whose rights then limit what it pushes. A sync that had lost its owner goes on. */
export async function transferSync(ctx: Context, path: SyncPath, body: Transfer): Promise<void> {
  await requireProject(ctx, path, 'sync:write')
  // The account may reach further than an admin of the project alone, who must not use its rights.
  await requireWorkspace(ctx, path, 'sync:transfer')
  const { sync, access } = await requireSync(ctx, path, 'sync:write')
  await within(ctx, access, sync, async (ctx, current) => {
    await reauthorise(ctx, access, 'sync:transfer')
    const account = await ctx.store.serviceAccounts.find(body.serviceAccountId.toLowerCase(), current.workspaceId)
    if (!account) throw new Failure('notFound')
    await requireReadable(ctx, access, current, account)
    const isOrphan = current.state === 'blocked' && current.reason === 'rights'
    const isRunning = isOrphan || current.state === 'active' || current.state === 'failing'
    await ctx.store.syncs.noteMaker(current)
    await put(ctx, current, {
      createdBy: account.id,
      ...(isOrphan && { state: 'active', reason: null, lastError: null, triggerNext: 'settings' }),
      ...(isRunning && { dueAt: ctx.now() }),
    })
    const after = { owner: account.id, serviceAccount: account.name }
    await note(ctx, current, 'UPDATE', { owner: current.createdBy }, after)
  })
}

async function requireReadable(
  ctx: WriteContext,
  { snapshot }: ProjectAccess,
  sync: SealedSync,
  account: ServiceAccount,
): Promise<void> {
  const { live } = await ctx.store.syncs.open(sync)
  if (!live) throw new Failure('conflict', 'This sync is not set up yet: go through its steps first.')
  if (sync.state === 'removing') throw new Failure('conflict', 'This sync is being removed.')
  const reach = [servicePrincipal(account).rights.member, ...live.scopes.map(toScopeSet)]
  if (reachesEnvironments({ snapshot, reach }, [sync.environmentId ?? ''])) return
  throw new Failure(
    'conflict',
    `The service account ${account.name} cannot read the environment of this sync: extend its grants first.`,
  )
}

export async function deleteSync(ctx: Context, path: SyncPath, { remove }: SyncRemoval): Promise<void> {
  const { sync, access } = await requireSync(ctx, path, 'sync:write')
  await within(ctx, access, sync, async (ctx, current) => {
    const removes = remove === 'true' && (await ctx.store.syncs.open(current)).live !== null
    if (removes) await put(ctx, current, { state: 'removing', triggerNext: 'remove', dueAt: ctx.now(), notBefore: 0 })
    else await ctx.store.syncs.remove(current.id, current.workspaceId)
    await note(ctx, current, 'DELETE', { state: current.state }, { remove: removes })
  })
}

async function change(
  ctx: Context,
  path: SyncPath,
  from: readonly SyncState[],
  what: string,
  next: (sync: SyncRecord, at: number) => Partial<SyncRecord>,
): Promise<void> {
  const { sync, access } = await requireSync(ctx, path, 'sync:write')
  await within(ctx, access, sync, async (ctx, current) => {
    if (!from.includes(current.state)) {
      throw new Failure('conflict', `A sync that is ${current.state.replace('_', ' ')} cannot ${what}.`)
    }
    const changed = next(current, ctx.now())
    await put(ctx, current, changed)
    await note(ctx, current, 'UPDATE', { state: current.state }, { state: changed.state ?? current.state, asked: what })
  })
}

async function within(
  ctx: Context,
  access: ProjectAccess,
  sync: SealedSync,
  work: (ctx: WriteContext, current: SealedSync) => Promise<void>,
): Promise<void> {
  await inTransaction(ctx, access.snapshot.workspace.id, async (ctx) => {
    await reauthorise(ctx, access, 'sync:write')
    const current = await ctx.store.syncs.findLocked(sync.id)
    if (!current) throw new Failure('notFound')
    await work(ctx, current)
  })
}

async function put(ctx: WriteContext, current: SealedSync, changed: Partial<SyncRecord>): Promise<void> {
  const next = { ...current, ...changed, fence: current.fence + 1, updatedAt: ctx.now() }
  await ctx.store.syncs.save(next, await ctx.store.syncs.open(current))
}

async function note(
  ctx: WriteContext,
  sync: SyncRecord,
  action: 'UPDATE' | 'DELETE',
  before: Record<string, unknown>,
  after: Record<string, unknown>,
): Promise<void> {
  const { workspaceId: chain, projectId, environmentId } = sync
  const where = environmentId === null ? {} : { environmentId }
  record(ctx, { chain, action, entity: syncEntity(sync), projectId, ...where, before, after })
}

export async function listSyncRuns(ctx: Context, path: SyncPath, query: SyncRunQuery): Promise<Page<SyncRun>> {
  const { sync } = await requireSync(ctx, path, 'sync:read')
  const limit = query.limit ?? defaultPageLength
  // Ids sort by time, and "z" sorts after every id.
  const before = query.cursor === undefined ? 'z' : decodeIdCursor(query.cursor)
  const runs = await ctx.store.syncRuns.list(sync.id, before, limit + 1)
  return pageOf(runs, limit, { item: toRun, position: ({ id }) => id })
}

export async function readSyncRun(ctx: Context, path: SyncRunPath): Promise<SyncRunDetail> {
  const { sync } = await requireSync(ctx, path, 'sync:read')
  const run = await ctx.store.syncRuns.find(path.runId.toLowerCase(), sync.id)
  if (!run) throw new Failure('notFound')
  return { ...toRun(run), items: [...run.items] }
}

function toRun({ id, cause, state, startedAt, endedAt, counts, error, attempts }: SyncRunSummary): SyncRun {
  return { id, trigger: cause, state, startedAt: iso(startedAt), endedAt: maybeIso(endedAt), counts, error, attempts }
}
