/** Revisions of environments: the numbers that writes take, and the one that a response names. */
import type { RevisionResults, WriteResult } from '@coffer/contract/secret'
import type { ProjectAccess } from '../../access/access.ts'
import type { Context, WriteContext } from '../../context.ts'
import { type CompareContext, inSecretTransaction } from './compare.ts'

/** Revisions of one request: at most one per environment, however many values change. */
export type Revisions = {
  /** One timestamp for the whole request: any earlier timestamp finds the state before it. */
  readonly at: number
  take(environmentId: string, counted: number): Promise<number>
  of(environmentId: string): number
  /** The environments that have a revision of this request. */
  environmentIds(): Iterable<string>
  /** Keeps a revision number that the request has taken in another way. */
  set(environmentId: string, revision: number): void
}

export function createRevisions(ctx: WriteContext, access: ProjectAccess): Revisions {
  const taken = new Map<string, number>()
  const at = ctx.now()
  return {
    at,
    async take(environmentId, counted) {
      const steps = taken.has(environmentId) ? 0 : 1
      const { secretValues } = ctx.store
      const workspaceId = access.snapshot.workspace.id
      secretValues.advanceRevision(environmentId, workspaceId, steps, counted, at)
      const revision = await secretValues.currentRevision(environmentId, workspaceId)
      taken.set(environmentId, revision)
      return revision
    },
    of: (environmentId) => taken.get(environmentId) ?? 0,
    environmentIds: () => taken.keys(),
    set: (environmentId, revision) => void taken.set(environmentId, revision),
  }
}

/**
 * Runs a write to one environment. The response has the environment's revision: the one that the request made, or the
 * previous one if it made none.
 */
export function writeRevision(
  ctx: Context,
  access: ProjectAccess,
  environment: { readonly id: string },
  isDryRun: boolean | undefined,
  write: (ctx: CompareContext) => Promise<WriteResult[]>,
): Promise<RevisionResults> {
  const find = ({ store }: CompareContext) =>
    store.secretValues.currentRevision(environment.id, access.snapshot.workspace.id)
  const work = async (ctx: CompareContext) => {
    const before = await find(ctx)
    const results = await write(ctx)
    return { success: true, results, revision: isDryRun ? before : await find(ctx) }
  }
  return inSecretTransaction(ctx, access, work, isDryRun)
}

/** The revision of each environment after the request; before it, in a dry run. */
export async function listRevisions(
  { store, isDryRun }: CompareContext,
  access: ProjectAccess,
  environmentIds: readonly string[],
  revisions: Revisions,
): Promise<{ environmentId: string; revision: number }[]> {
  const workspaceId = access.snapshot.workspace.id
  const listed: { environmentId: string; revision: number }[] = []
  for (const environmentId of environmentIds) {
    const made = revisions.of(environmentId)
    const before = () => store.secretValues.currentRevision(environmentId, workspaceId)
    const revision = made === 0 ? await before() : isDryRun ? made - 1 : made
    listed.push({ environmentId, revision })
  }
  return listed
}
