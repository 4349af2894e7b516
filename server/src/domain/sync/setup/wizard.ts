/**
 * Sets up a sync in steps: auth, target, mapping, review. Forms are data; answers are tried with real calls, sealed,
 * and shown again only if they are not secret. An active sync keeps its settings until the last step of a change.
 */
import type { FlowQuery, FlowStep, FlowStepName, NewSync, ProviderPath, StartedSync } from '@coffer/contract/sync'
import { newId } from '../../../crypto/id.ts'
import { Failure } from '../../../failure.ts'
import { isFault } from '../../../providers/fault.ts'
import type { Field, Provider, Values } from '../../../providers/provider.ts'
import type { SyncRecord } from '../../../store/sync/sync.ts'
import {
  inRole,
  type ProjectAccess,
  reachedEnvironments,
  reauthorise,
  requireProjectById,
} from '../../access/access.ts'
import { record } from '../../audit/record.ts'
import type { Context } from '../../context.ts'
import { requireClearName } from '../../new-name.ts'
import { dayMs } from '../../time.ts'
import { inTransaction } from '../../transaction.ts'
import { connectTo, requireProvider } from '../connection.ts'
import { syncEntity } from '../entity.ts'
import { answerFault } from '../fault.ts'
import { mappingFields } from '../mapping.ts'
import { isAskedAgain, renderFields } from './form.ts'
import { reviewForm } from './review.ts'
import { requireSetup, type Setup } from './setup.ts'

export const draftLifeMs = dayMs
const maxSyncs = 100

export async function startSync(ctx: Context, { slug }: ProviderPath, body: NewSync): Promise<StartedSync> {
  const access = await requireProjectById(ctx, body.projectId, 'sync:write')
  const provider = await requireProvider(slug)
  const { project, snapshot } = access
  const workspaceId = snapshot.workspace.id
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
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: syncEntity(sync), projectId: project.id, after })
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
  requireClearName(given)
  if (given !== undefined) {
    if (taken.has(given)) throw new Failure('conflict', `A sync named "${given}" already exists.`)
    return given
  }
  let name = provider.name
  for (let number = 2; taken.has(name); number++) name = `${provider.name} ${number}`
  return name
}

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
  placeholder: 'Environment to push from',
  byLabel: true,
  options: reachedEnvironments(inRole(access, 'admin').reach, access.project).map(({ id, name }) => ({
    label: name,
    value: id,
  })),
})

const descriptions: Record<FormStep, (provider: Provider) => string> = {
  auth: ({ name }) =>
    `How Coffer signs in to ${name}. Your input is checked at once, stored encrypted, and never shown again.`,
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
      fields: await renderFields(fields, answers, connection, setup.draft.mapping ?? {}),
      next: { text: 'Continue', step: isAskedAgain(fields, answers) ? step : following[step] },
    }
  } catch (error) {
    if (!isFault(error)) throw error
    const { provider, draft } = setup
    throw answerFault(provider, draft.credential ?? {}, error, (explanation) => new Failure('conflict', explanation))
  }
}
