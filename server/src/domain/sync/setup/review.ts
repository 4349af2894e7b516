/** The last step: shows the plan by name, and asks for confirmation. */
import { createHash, randomBytes } from 'node:crypto'
import type { FlowStep, SyncPlan } from '@coffer/contract/sync'
import { hashBearer } from '../../../crypto/token.ts'
import { Failure, invalid } from '../../../failure.ts'
import type { Field, Provider, Values } from '../../../providers/provider.ts'
import type { SealedSync, SyncDraft, SyncRecord, SyncSettings } from '../../../store/sync/sync.ts'
import { type EnvironmentAccess, reauthorise, requireEnvironment } from '../../access/access.ts'
import { grantOf } from '../../actor.ts'
import { record } from '../../audit/record.ts'
import type { Context, WriteContext } from '../../context.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { inTransaction } from '../../transaction.ts'
import { connectTo } from '../connection.ts'
import { type Inspection, inspectTarget, namedTo, unsettled } from '../inspect.ts'
import { macKeyOf, type Owner, readLedger, writeLedger } from '../ledger.ts'
import { foundWords } from '../plan.ts'
import { requireSource } from '../source.ts'
import { settledCopies } from './form.ts'
import type { Setup } from './setup.ts'

type ReadyDraft = Required<Omit<SyncDraft, 'auth' | 'isTargetComplete'>>

export async function reviewForm(ctx: Context, setup: Setup): Promise<FlowStep> {
  const { provider, sync, draft } = setup
  const { inspection, place, placeHash, isElsewhere, isFirst } = await preview(ctx, setup)
  const plan = toPlan(inspection)
  const sentences = [
    `Secrets go to ${provider.name}, ${place.label}.`,
    countsOf(plan),
    'The sync never changes or deletes entries that it did not create, unless you allow takeover.',
    ...(isElsewhere ? ['Entries already pushed to the current target stay there.'] : []),
    ...(plan.problems.length > 0 ? ['Fix the listed problems before you continue.'] : []),
    ...provider.notes,
  ]
  return {
    description: sentences.join(' '),
    fields: [
      {
        id: 'plan',
        label: isFirst ? 'What the first push does' : 'What the next push does',
        type: 'copy',
        data: { value: JSON.stringify(plan, null, 2), language: 'json' },
      },
      ...settledCopies(
        provider.auth,
        draft.auth ?? {},
        { syncId: sync.id, target: draft.target ?? {} },
        draft.mapping ?? {},
      ),
      {
        id: 'confirm',
        label: 'Confirm',
        type: 'input',
        data: {
          type: 'text',
          placeholder: 'Filled in for you; valid only for this plan',
          defaultValue: wordFor(setup.draft, placeHash, plan),
          isRequired: true,
        },
      },
    ],
    next: { text: 'Start', step: 'done' },
  }
}

export function toPlan({ plan, mapped }: Inspection): SyncPlan {
  return {
    create: [...plan.create],
    update: [...plan.adopt, ...plan.update],
    delete: [...plan.delete],
    unchanged: [...plan.unchanged],
    conflict: [...plan.conflict.map(({ name }) => name), ...plan.drifted],
    reasons: [
      ...plan.conflict.map(({ name, why }) => ({ name, reason: why })),
      ...plan.drifted.map((name) => ({ name, reason: foundWords[plan.found.get(name) ?? 'changed'] })),
    ],
    problems: mapped.problems.map(({ name, problem }) => ({ name, problem })),
  }
}

function countsOf(plan: SyncPlan): string {
  const { create, update, delete: removed, unchanged, conflict, problems } = plan
  const counts = { create, update, delete: removed, unchanged, conflict, problems }
  const told = Object.entries(counts).filter(([, list]) => list.length > 0)
  if (told.length === 0) return 'There is nothing to push yet.'
  return `${told.map(([name, list]) => `${name}: ${list.length}`).join(', ')}.`
}

/** The confirmation word is a digest of target, answers and plan, so any change to them needs a new confirmation. */
function wordFor(draft: SyncDraft, placeHash: string, plan: SyncPlan): string {
  return createHash('sha256')
    .update(JSON.stringify([placeHash, draft.account, draft.target, draft.mapping, draft.options, plan]))
    .digest('hex')
    .slice(0, 16)
}

function requireReady({ draft }: Setup): ReadyDraft {
  const { credential, credentialBy = '', account, target, mapping, options } = draft
  if (!credential || account === undefined || !target || !mapping || !options) throw new Failure('conflict')
  return { credential, credentialBy, account, target, mapping, options }
}

async function preview(ctx: Context, setup: Setup) {
  const { sync, provider, content } = setup
  const draft = requireReady(setup)
  const access = await sourceOf(ctx, setup, draft)
  const place = provider.describeTarget(draft.target, draft.credential)
  const placeHash = placeHashOf(provider, draft)
  const isElsewhere = content.live !== null && placeHashOf(provider, content.live) !== placeHash
  const rewrites = content.live !== null && storedAnswers(provider, content.live) !== storedAnswers(provider, draft)
  const macKey = isElsewhere || !content.live ? randomBytes(32).toString('base64') : content.live.macKey
  const ledger = isElsewhere ? [] : await readLedger(ctx.store, { syncId: sync.id, macKey: macKeyOf(macKey) })
  const far = provider.connect(await connectTo(ctx, provider, sync, draft))
  const lastOkAt = isElsewhere ? null : sync.lastOkAt
  const source = await requireSource(ctx, access, draft.mapping, access)
  const inspection = await inspectTarget(ctx, provider, far, source, {
    sync: { id: sync.id, placeHash, lastOkAt },
    settings: draft,
    macKey: macKeyOf(macKey),
    ledger,
    repairs: false,
    looks: true,
    rewrites,
    mayName: namedTo(access),
  })
  return { access, draft, inspection, source, place, placeHash, isElsewhere, isFirst: lastOkAt === null, macKey }
}

/** The same for all syncs that write to the same place. */
export function placeHashOf(provider: Provider, { target, credential }: Pick<SyncSettings, 'target' | 'credential'>) {
  const { fingerprint } = provider.describeTarget(target, credential)
  return createHash('sha256')
    .update(JSON.stringify([provider.slug, fingerprint]))
    .digest('hex')
}

function storedAnswers({ target, options }: Provider, answers: Pick<SyncSettings, 'target' | 'options'>): string {
  const pick = (fields: readonly Field[], values: Values) =>
    fields.flatMap((field) => (field.kind !== 'copy' && field.isStored ? [values[field.id] ?? null] : []))
  return JSON.stringify([pick(target, answers.target), pick(options, answers.options)])
}

function sourceOf(ctx: Context, { access }: Setup, { mapping }: ReadyDraft): Promise<EnvironmentAccess> {
  const path = {
    ws: access.snapshot.workspace.id,
    prj: access.project.id,
    environmentId: requireAnswer(mapping, 'environment'),
  }
  return requireEnvironment(ctx, path, 'sync:write')
}

/** Throws a 409 if the sync has changed since it was read. */
export function requireUnchanged(current: SealedSync, seen: SealedSync): void {
  if (Buffer.compare(current.sealed, seen.sealed) !== 0) {
    throw new Failure('conflict', 'Someone has changed this sync meanwhile: review it again.')
  }
}

/** Starts the sync, with the rights of the caller. */
export async function activate(ctx: Context, setup: Setup, confirm: string): Promise<void> {
  const { sync, provider } = setup
  const { access, draft, inspection, source, place, placeHash, isElsewhere, isFirst, macKey } = await preview(
    ctx,
    setup,
  )
  const plan = toPlan(inspection)
  const [problem] = plan.problems
  if (problem) throw invalid('confirm', `${problem.name} ${problem.problem}`)
  if (confirm !== wordFor(setup.draft, placeHash, plan)) {
    throw invalid('confirm', 'does not match the current plan: open the review again.')
  }
  const isSlow = provider.capabilities.deploysOnPush === true
  const workspaceId = access.snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'sync:write')
    const current = await ctx.store.syncs.findLocked(sync.id)
    if (!current || current.state === 'removing') throw new Failure('notFound')
    requireUnchanged(current, sync)
    const grant = grantOf(ctx.actor.credential)
    const live: SyncSettings = { ...draft, scopes: grant ? [grant.scope] : [], macKey }
    const at = ctx.now()
    const next: SyncRecord = {
      ...current,
      state: 'active',
      environmentId: access.environment.id,
      createdBy: ctx.actor.userId,
      target: place.label,
      lastError: null,
      reason: null,
      triggerNext: isFirst ? 'first' : 'settings',
      draftUntil: null,
      credentialHash: credentialHash(ctx, provider.slug, draft.credential),
      placeHash,
      concurrency: provider.limits.rate.concurrency,
      quietMs: (isSlow ? 15 : 3) * secondMs,
      maxWaitMs: isSlow ? 2 * minuteMs : 30 * secondMs,
      dueAt: at,
      notBefore: 0,
      failCount: 0,
      failingSince: null,
      // The confirmed plan contained these deletes.
      allowedDeletes: plan.delete.length,
      lastOkAt: isElsewhere ? null : current.lastOkAt,
      fence: current.fence + 1,
      updatedAt: at,
    }
    await ctx.store.syncs.save(next, { live, draft: null })
    if (isElsewhere) ctx.store.syncLedger.clear(sync.id)
    else await noteUpdates(ctx, { syncId: sync.id, macKey: macKeyOf(macKey) }, inspection)
    await ctx.store.syncSources.set(sync.id, source.environmentIds)
    record(ctx, {
      chain: workspaceId,
      action: 'UPDATE',
      entity: { type: 'sync', id: sync.id, name: sync.name },
      projectId: sync.projectId,
      environmentId: access.environment.id,
      before: { state: current.state, ...(current.target !== null && { target: current.target }) },
      after: { state: 'active', target: place.label, account: draft.account, mapping: draft.mapping },
    })
  })
}

/** Marks the confirmed updates as pending, so that a later run makes them even if the next one fails. */
async function noteUpdates({ store }: WriteContext, owner: Owner, { plan }: Inspection): Promise<void> {
  const wanted = new Set(plan.update)
  const entries = await readLedger(store, owner)
  await writeLedger(
    store,
    owner,
    entries.filter(({ name }) => wanted.has(name)).map((entry) => unsettled(entry, wanted)),
  )
}

export function credentialHash(ctx: Context, slug: string, credential: object): string {
  return hashBearer(ctx.keys.keyring.active, JSON.stringify([slug, credential])).toString('hex')
}

function requireAnswer(values: Values, id: string): string {
  const value = values[id]
  if (value === undefined || value === '') throw invalid(id, 'is required.')
  return value
}
