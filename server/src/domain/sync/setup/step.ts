/** Checks the answers to a wizard step, tries them at the vendor, and seals them. A wrong answer changes nothing. */
import type { FlowAnswers, FlowProgress, ProviderPath } from '@coffer/contract/sync'
import { Failure, invalid } from '../../../failure.ts'
import { isFault, type VendorFault } from '../../../providers/fault.ts'
import type { Field, Values } from '../../../providers/provider.ts'
import type { SealedSync, SyncDraft, SyncRecord } from '../../../store/sync/sync.ts'
import { reauthorise } from '../../access/access.ts'
import { record } from '../../audit/record.ts'
import type { Context, WriteContext } from '../../context.ts'
import { inTransaction } from '../../transaction.ts'
import { connectTo } from '../connection.ts'
import { syncEntity } from '../entity.ts'
import { answerFault, explainFault, needsPerson, secretTextsOf } from '../fault.ts'
import { createScrubber } from '../scrubber.ts'
import { checkAnswers, findUnoffered, isRefusable } from './form.ts'
import { activate, credentialHash, placeHashOf, requireUnchanged } from './review.ts'
import { requireSetup, type Setup, shownAgain } from './setup.ts'
import { draftLifeMs, formOf } from './wizard.ts'

export async function submitFlowStep(ctx: Context, { slug }: ProviderPath, body: FlowAnswers): Promise<FlowProgress> {
  const { step, values = {} } = body
  const setup = await requireSetup(ctx, slug, body.syncConfigId, step)
  const next = await submit[step](ctx, setup, values)
  return { step: next, syncConfigId: setup.sync.id }
}

type Submit = (ctx: Context, setup: Setup, values: Values) => Promise<string>

const submit: Record<FlowAnswers['step'], Submit> = {
  async auth(ctx, setup, values) {
    const { provider, sync, draft, content } = setup
    const { fields, answers: shown } = formOf(setup, 'auth')
    const { answers, next } = checkAnswers(fields, shown, values)
    const auth = shownAgain(provider, answers)
    if (next !== undefined) {
      await saveDraft(ctx, setup, 'auth', { ...draft, auth })
      return 'auth'
    }
    const connection = await connectTo(ctx, provider, sync, { credential: answers, target: {}, options: {} })
    const account = await trying(setup, { fields, answers, credential: answers }, () => provider.verify(connection))
    if (content.live && account === content.live.account && needsOnlyCredential(setup, answers)) {
      await renewCredential(ctx, setup, answers)
      return 'done'
    }
    // Targets belong to an account, so a different account drops the target.
    const { target, isTargetComplete, ...rest } = draft
    const kept = account === draft.account && target ? { target, ...(isTargetComplete && { isTargetComplete }) } : {}
    await saveDraft(ctx, setup, 'auth', {
      ...rest,
      ...kept,
      auth,
      credential: answers,
      credentialBy: ctx.actor.userId,
      account,
    })
    return 'target'
  },

  async target(ctx, setup, values) {
    const { provider, sync, draft } = setup
    const { fields, answers: shown } = formOf(setup, 'target')
    const { answers, next } = checkAnswers(fields, shown, values)
    const { isTargetComplete: _was, ...rest } = draft
    const credential = draft.credential ?? {}
    const connection = await connectTo(ctx, provider, sync, { credential, target: answers, options: {} })
    const unoffered = () => findUnoffered(fields, answers, connection)
    if (next !== undefined) {
      // The target is incomplete and cannot be tried yet, but the choices offered next depend on these answers.
      const wrong = await trying(setup, { fields, answers, credential }, unoffered)
      if (wrong !== undefined) throw invalid(wrong, `is not one of those that ${provider.name} offers.`)
      await saveDraft(ctx, setup, 'target', { ...rest, target: answers })
      return 'target'
    }
    const far = provider.connect(connection)
    await trying(setup, { fields, answers, credential, unoffered }, async () => {
      for await (const _item of far.list(new Set())) break
    })
    await saveDraft(ctx, setup, 'target', { ...rest, target: answers, isTargetComplete: true })
    return 'mapping'
  },

  async mapping(ctx, setup, values) {
    const { provider, draft } = setup
    const { fields, answers: shown } = formOf(setup, 'mapping')
    const { answers, next } = checkAnswers(fields, shown, values)
    const own = new Set(provider.options.map(({ id }) => id))
    const entries = Object.entries(answers)
    const mapping = Object.fromEntries(entries.filter(([id]) => !own.has(id)))
    const options = Object.fromEntries(entries.filter(([id]) => own.has(id)))
    await saveDraft(ctx, setup, 'mapping', { ...draft, mapping, options })
    return next === undefined ? 'review' : 'mapping'
  },

  async review(ctx, setup, { confirm, ...others }) {
    const copies = new Set(['plan', ...setup.provider.auth.filter(({ kind }) => kind === 'copy').map(({ id }) => id)])
    const [stranger] = Object.keys(others).filter((id) => !copies.has(id))
    if (stranger !== undefined) throw invalid(stranger, 'is not a field of this step.')
    if (confirm === undefined || confirm === '') throw invalid('confirm', 'is required.')
    const answered = { fields: [], answers: { confirm }, credential: setup.draft.credential ?? {} }
    await trying(setup, answered, () => activate(ctx, setup, confirm))
    return 'done'
  },
}

type Tried = {
  readonly fields: readonly Field[]
  readonly answers: Values
  readonly credential: Values
  /** Finds the answer that the vendor does not offer, for a refusal that names no field. */
  readonly unoffered?: () => Promise<string | undefined>
}

/** A refusal by the vendor becomes a 400 that starts with the field at fault, an outage a 503. */
async function trying<Result>({ provider }: Setup, tried: Tried, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!isFault(error)) throw error
    const { credential } = tried
    const address =
      error.facts.isUnreached && ((error.facts.isUntrusted && authorityField(tried)) || addressField(tried))
    if (address) {
      const scrubber = createScrubber(secretTextsOf(provider, credential))
      throw invalid(address, explainFault(provider.name, error, scrubber, 'awaited'))
    }
    const field = needsPerson(error) ? await fieldToBlame(error, tried) : undefined
    throw answerFault(provider, credential, error, (explanation) =>
      field === undefined ? new Failure('conflict', explanation) : invalid(field, explanation),
    )
  }
}

/** The field of the address that the person entered; undefined if they kept the vendor's own address. */
function addressField({ fields, answers }: Tried): string | undefined {
  const field = fields.find((one) => one.kind !== 'copy' && one.isAddress)
  if (!field || field.kind === 'copy' || answers[field.id] === undefined) return undefined
  return answers[field.id] === field.defaultValue ? undefined : field.id
}

const authorityField = ({ fields }: Tried) => fields.find((field) => field.kind !== 'copy' && field.isAuthority)?.id

/** Undefined if no answer of this step can be at fault. */
async function fieldToBlame({ kind, facts }: VendorFault, tried: Tried): Promise<string | undefined> {
  const { fields, answers, unoffered } = tried
  if (facts.field !== undefined) return fields.some(({ id }) => id === facts.field) ? facts.field : undefined
  if (facts.isUnreached) return undefined
  const password = fields.find((field) => field.kind === 'password' && answers[field.id] !== undefined)?.id
  if (kind === 'auth') return password
  // Some other server answered at the address that was entered: the vendor's service would know its own paths.
  const address = kind === 'gone' && facts.status !== undefined ? addressField(tried) : undefined
  if (address !== undefined) return address
  const wrong = await unoffered?.().catch((error) => {
    // If the vendor refuses this request too, its first message counts.
    if (!isFault(error)) throw error
    return undefined
  })
  // A right is missing: that is a matter of the credential, which the explanation says, and of no answer here.
  if (wrong !== undefined || password !== undefined || kind === 'scope') return wrong ?? password
  return fields.findLast((field) => isRefusable(field) && answers[field.id] !== undefined)?.id
}

async function saveDraft(ctx: Context, setup: Setup, step: FlowAnswers['step'], draft: SyncDraft): Promise<void> {
  await change(ctx, setup, async (ctx, current, live) => {
    const at = ctx.now()
    await ctx.store.syncs.save({ ...current, draftUntil: at + draftLifeMs, updatedAt: at }, { live, draft })
    const place = { chain: current.workspaceId, projectId: current.projectId }
    record(ctx, { ...place, action: 'UPDATE', entity: syncEntity(current), after: { step } })
  })
}

type Live = Setup['content']['live']

/** Runs `work` in a transaction, with the stored state of the sync. */
async function change(
  ctx: Context,
  { access, sync }: Setup,
  work: (ctx: WriteContext, current: SealedSync, live: Live) => Promise<void>,
): Promise<void> {
  await inTransaction(ctx, access.snapshot.workspace.id, async (ctx) => {
    await reauthorise(ctx, access, 'sync:write')
    const current = await ctx.store.syncs.findLocked(sync.id)
    if (!current || current.state === 'removing') throw new Failure('notFound')
    const { live } = await ctx.store.syncs.open(current)
    await work(ctx, current, live)
  })
}

/** True if the vendor rejected the old credential and the new one leads to the same place: no review needed. */
function needsOnlyCredential({ provider, sync, content: { live } }: Setup, credential: Values): boolean {
  if (sync.state !== 'needs_reauth' || !live) return false
  return placeHashOf(provider, { ...live, credential }) === placeHashOf(provider, live)
}

async function renewCredential(ctx: Context, setup: Setup, credential: Values): Promise<void> {
  await change(ctx, setup, async (ctx, current, live) => {
    if (!live) throw new Failure('notFound')
    requireUnchanged(current, setup.sync)
    const at = ctx.now()
    const next: SyncRecord = {
      ...current,
      state: 'active',
      reason: null,
      lastError: null,
      triggerNext: 'resume',
      draftUntil: null,
      dueAt: at,
      notBefore: 0,
      failCount: 0,
      failingSince: null,
      credentialHash: credentialHash(ctx, current.provider, credential),
      fence: current.fence + 1,
      updatedAt: at,
    }
    await ctx.store.syncs.save(next, { live: { ...live, credential, credentialBy: ctx.actor.userId }, draft: null })
    const place = { chain: current.workspaceId, projectId: current.projectId }
    const [before, after] = [{ state: current.state }, { state: 'active', credential: 'renewed' }]
    record(ctx, { ...place, action: 'UPDATE', entity: syncEntity(current), before, after })
  })
}
