/** The sets of rows that grant rights (`store/row-set.ts`): finds broken ones, and takes rows for right as they are. */
import { Failure } from '../../failure.ts'
import { type RowSetKind, rowSetKinds } from '../../store/row-set.ts'
import type { ReadStore } from '../../store/store.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { announce, inTransaction } from '../transaction.ts'

/** Number of rows by the kind of set. */
type AcceptedRows = Readonly<Record<string, number>>

/** For the operator: opens a workspace whose rows were removed or put back in the database. */
export async function acceptRows(ctx: Context, slugOrId: string): Promise<AcceptedRows> {
  const id = await ctx.store.workspaces.findIdForAnybody(slugOrId)
  const workspace = id === undefined ? undefined : await ctx.store.workspaces.find(id)
  if (!workspace) throw new Failure('notFound', `There is no workspace "${slugOrId}".`)
  return inTransaction(ctx, workspace.id, async (ctx) => {
    const after = await adoptRows(ctx, workspace.id)
    const entity = { type: 'row-set', id: workspace.id, name: workspace.name }
    record(ctx, { chain: workspace.id, action: 'UPDATE', entity, after })
    return after
  })
}

/** Call under the lock of the workspace. */
export async function adoptRows(ctx: WriteContext, workspaceId: string): Promise<AcceptedRows> {
  const { rowSets } = ctx.store
  await rowSets.insert(workspaceId)
  const counts: Record<string, number> = {}
  for (const kind of rowSetKinds) counts[kind] = await rowSets.adopt({ workspaceId, kind })
  announce(ctx, 'workspace', workspaceId)
  return counts
}

type BrokenSet = { readonly workspaceId: string; readonly slug: string; readonly what: string }

const setNames: Record<RowSetKind, string> = {
  access: 'members, service accounts or policy',
  token: 'tokens',
  identity: 'identities',
}

/** Sets with rows that were removed, added or put back outside of Coffer. Reads one workspace at a time. */
export async function* findBrokenSets({ rowSets, workspaces }: ReadStore): AsyncGenerator<BrokenSet> {
  let workspace = await workspaces.findAfter('')
  for (; workspace; workspace = await workspaces.findAfter(workspace.id)) {
    const { id: workspaceId, slug } = workspace
    for (const kind of rowSetKinds) {
      if (await rowSets.isWhole({ workspaceId, kind })) continue
      // The workspace may have been deleted meanwhile, and its sets with it.
      if (await workspaces.find(workspaceId)) yield { workspaceId, slug, what: setNames[kind] }
    }
  }
}
