/**
 * Sets up a sync in steps: auth, target, mapping, review. Forms are data; answers are tried with real calls, sealed,
 * and shown again only if they are not secret. An active sync keeps its settings until the last step of a change.
 */
import type { FlowQuery, FlowStep, FlowStepName, NewSync, ProviderPath, StartedSync } from '@coffer/contract/sync'
import { newId } from '../../../crypto/id.ts'
import { Failure } from '../../../failure.ts'
import { isFault } from '../../../providers/fault.ts'
import type { Field, Provider, Values } from '../../../providers/provider.ts'
import type { SealedSync, SyncContent, SyncDraft, SyncRecord } from '../../../store/sync.ts'
import {
  type ProjectAccess,
  reachedEnvironments,
  reachesEnvironments,
  reauthorise,
  requireProjectById,
} from '../../access/access.ts'
import { record } from '../../audit/record.ts'
import type { Context } from '../../context.ts'
import { dayMs } from '../../time.ts'
import { inTransaction } from '../../transaction.ts'
import { answerFault } from '../fault.ts'
import { mappingFields } from '../mapping.ts'
import { connectTo, requireProvider } from '../source.ts'
import { isAskedAgain, renderFields } from './form.ts'
import { reviewForm } from './review.ts'

export const draftLifeMs = dayMs
const maxSyncs = 100

export const syncEntity = ({ id, name }: { id: string; name: string }) => ({ type: 'sync', id, name })

export async function startSync(ctx: Context, { slug }: ProviderPath, body: NewSync): Promise<StartedSync> {
  const access = await requireProjectById(ctx, body.projectId, 'sync:write')
  const provider = await requireProvider(slug)
  const { project, picture } = access
  const workspaceId = picture.workspace.id
  const at = ctx.now()
  const syncConfigId = newId()
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'sync:write')
    const syncs = await ctx.store.syncs.list(project.id, workspaceId)
    if (syncs.length >= maxSyncs)
      throw new Failure('conflict', `This project has ${maxSyncs} syncs: delete some first.`)
    const sync: SyncRecord = {
      ...blank,
      id: syncConfigId,
      workspaceId,
      projectId: project.id,
      provider: provider.slug,
      name: chooseName(body.name, provider, new Set(syncs.map(({ name }) => name))),
      createdBy: ctx.actor.userId,
      draftUntil: at + draftLifeMs,
      createdAt: at,
      updatedAt: at,
    }
    await ctx.store.syncs.insert(sync, { live: null, draft: {} })
    const after = { provider: sync.provider, state: sync.state }
    await record(ctx, { chain: workspaceId, action: 'CREATE', entity: syncEntity(sync), projectId: project.id, after })
  })
  return { syncConfigId }
}

const blank = {
  state: 'draft',
  environmentId: null,
  target: null,
  lastError: null,
  reason: null,
  triggerNext: 'first',
  credentialHash: null,
  placeHash: null,
  concurrency: 1,
  quietMs: 0,
  maxWaitMs: 0,
  fence: 0,
  dueAt: null,
  notBefore: 0,
  scanAt: null,
  changeCount: 0,
  changedAt: null,
  failCount: 0,
  failingSince: null,
  allowedDeletes: 0,
  lastRunAt: null,
  lastOkAt: null,
} as const

function chooseName(given: string | undefined, provider: Provider, taken: ReadonlySet<string>): string {
  if (given !== undefined) {
    if (taken.has(given)) throw new Failure('conflict', `There is a sync "${given}" already.`)
    return given
  }
  let name = provider.name
  for (let number = 2; taken.has(name); number++) name = `${provider.name} ${number}`
  return name
}

/** A sync whose environment is not chosen yet, or was deleted, is visible in the whole project. */
export const isSyncVisible = (access: ProjectAccess, { environmentId }: SyncRecord): boolean =>
  environmentId === null ||
  !access.picture.environments.has(environmentId) ||
  reachesEnvironments(access, [environmentId])

/** A sync in the wizard, with the answers so far. */
export type Setup = {
  readonly access: ProjectAccess
  readonly provider: Provider
  readonly sync: SealedSync
  readonly content: SyncContent
  readonly draft: SyncDraft
}

export async function requireSetup(ctx: Context, slug: string, id: string, step: FlowStepName): Promise<Setup> {
  const sync = await ctx.store.syncs.find(id.toLowerCase())
  // Unknown syncs go through the same look-up, so that they are refused like a sync out of reach.
  const access = await requireProjectById(ctx, sync?.projectId ?? id, 'sync:write')
  if (sync?.provider !== slug || !isSyncVisible(access, sync)) throw new Failure('notFound')
  const provider = await requireProvider(slug)
  if (sync.state === 'removing') throw new Failure('conflict', 'This sync is being removed.')
  const content = await ctx.store.syncs.open(sync)
  const draft = withinReach(access, content.draft ?? draftOf(provider, content))
  const missing = missingStep(draft, step)
  if (missing) throw new Failure('conflict', `step: ${missing} comes before ${step}.`)
  if (step !== 'auth' && !mayUse(ctx, step, draft, content)) {
    throw new Failure('conflict', `step: auth comes before ${step}, as the credential is another person’s.`)
  }
  return { access, provider, sync, content, draft }
}

/** Filters and renames contain key names, so the mapping of an environment out of the caller's reach is hidden. */
function withinReach(access: ProjectAccess, draft: SyncDraft): SyncDraft {
  const { mapping, options: _options, ...rest } = draft
  return mapping && !reachesEnvironments(access, [mapping.environment ?? '']) ? rest : draft
}

/** A change starts from the live settings. */
function draftOf(provider: Provider, { live }: SyncContent): SyncDraft {
  if (!live) return {}
  const { credential, credentialBy, account, target, mapping, options } = live
  return {
    auth: shownAgain(provider, credential),
    credential,
    credentialBy,
    account,
    target,
    isTargetComplete: true,
    mapping,
    options,
  }
}

/** The first step that must be completed before this one. */
function missingStep(draft: SyncDraft, step: FlowStepName): FlowStepName | undefined {
  if (step === 'auth') return undefined
  if (draft.account === undefined) return 'auth'
  if (step === 'target') return undefined
  if (!draft.isTargetComplete) return 'target'
  return step === 'review' && !draft.mapping ? 'mapping' : undefined
}

/** A credential reaches what its owner reaches there. Others may use it only for the target that it already serves. */
function mayUse(ctx: Context, step: FlowStepName, draft: SyncDraft, { live }: SyncContent): boolean {
  if (draft.credentialBy === ctx.actor.userId) return true
  const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
  return step !== 'target' && isSame(draft.credential, live?.credential) && isSame(draft.target, live?.target)
}

export const shownAgain = (provider: Provider, credential: Values): Values =>
  Object.fromEntries(
    Object.entries(credential).filter(([id]) => provider.auth.find((field) => field.id === id)?.kind !== 'password'),
  )

type FormStep = Exclude<FlowStepName, 'review'>

export function formOf(
  { provider, draft, access }: Setup,
  step: FormStep,
): { fields: readonly Field[]; answers: Values } {
  if (step === 'auth') return { fields: provider.auth, answers: draft.auth ?? {} }
  if (step === 'target') return { fields: provider.target, answers: draft.target ?? {} }
  const fields = [environmentField(access), ...mappingFields(provider), ...provider.options]
  return { fields, answers: { ...draft.mapping, ...draft.options } }
}

const environmentField = (access: ProjectAccess): Field => ({
  kind: 'select',
  id: 'environment',
  label: 'Environment',
  placeholder: 'Whose secrets are pushed',
  byLabel: true,
  options: reachedEnvironments(access.reach, access.project).map(({ id, name }) => ({ label: name, value: id })),
})

const descriptions: Record<FormStep, (provider: Provider) => string> = {
  auth: ({ name }) => `How Coffer signs in to ${name}. What you enter is tried at once, sealed, and never shown again.`,
  target: ({ name }) => `Where in ${name} the secrets go.`,
  mapping: ({ notes }) => ['Which secrets go there, and under which names.', ...notes].join(' '),
}
const following: Record<FormStep, FlowStepName> = { auth: 'target', target: 'mapping', mapping: 'review' }

export async function readFlowStep(ctx: Context, { slug }: ProviderPath, query: FlowQuery): Promise<FlowStep> {
  const { step } = query
  const setup = await requireSetup(ctx, slug, query.syncConfigId, step)
  try {
    if (step === 'review') return await reviewForm(ctx, setup)
    const { fields, answers } = formOf(setup, step)
    const { credential = {}, target = {}, options = {} } = setup.draft
    const connection = await connectTo(ctx, setup.provider, setup.sync, { credential, target, options })
    return {
      description: descriptions[step](setup.provider),
      fields: await renderFields(fields, answers, connection, setup.draft.mapping?.onExisting === 'adopt'),
      next: { text: 'Continue', step: isAskedAgain(fields, answers) ? step : following[step] },
    }
  } catch (error) {
    if (!isFault(error)) throw error
    const { provider, draft } = setup
    throw answerFault(provider, draft.credential ?? {}, error, (explanation) => new Failure('conflict', explanation))
  }
}
