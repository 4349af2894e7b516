/** Prepares the sets of rows (`store/row-set.ts`) of all workspaces: they begin with the rows that there are. */
import type { WorkspaceRow } from '../../store/workspace/workspace.ts'
import type { Context } from '../context.ts'
import { inQuietTransaction, inTransaction } from '../transaction.ts'
import { adoptRows } from '../workspace/row-set.ts'

/** After this long, transactions that found no set have ended. */
const settleMs = 2_000

export async function adoptAllRows(ctx: Context): Promise<void> {
  await forEachWorkspace(ctx, ({ id }) => inQuietTransaction(ctx, `row-set:${id}`, ({ rowSets }) => rowSets.insert(id)))
  // Every later write finds a set, and waits while its rows are read. SQLite has one writer anyway.
  if (ctx.engine.kind === 'postgres') await ctx.sleep(settleMs)
  await forEachWorkspace(ctx, ({ id }) => inTransaction(ctx, id, (ctx) => adoptRows(ctx, id)))
}

async function forEachWorkspace(
  { store }: Context,
  work: (workspace: WorkspaceRow) => Promise<unknown>,
): Promise<void> {
  let workspace = await store.workspaces.findAfter('')
  for (; workspace; workspace = await store.workspaces.findAfter(workspace.id)) await work(workspace)
}
