import type { FlowStepName } from '@coffer/contract/sync'
import { Failure } from '../../../failure.ts'
import type { Provider, Values } from '../../../providers/provider.ts'
import type { SealedSync, SyncContent, SyncDraft } from '../../../store/sync/sync.ts'
import { inRole, type ProjectAccess, reachesEnvironments, requireProjectById } from '../../access/access.ts'
import type { Context } from '../../context.ts'
import { requireProvider } from '../connection.ts'
import { isSyncVisible } from '../entity.ts'

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
    throw new Failure('conflict', `step: auth comes before ${step}, because the credential belongs to another person.`)
  }
  return { access, provider, sync, content, draft }
}

/** Filters and renames contain key names, so the mapping of an environment out of the caller's reach is hidden. */
function withinReach(access: ProjectAccess, draft: SyncDraft): SyncDraft {
  const { mapping, options: _options, ...rest } = draft
  return mapping && !reachesEnvironments(inRole(access, 'admin'), [mapping.environment ?? '']) ? rest : draft
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
