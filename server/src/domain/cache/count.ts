/** Cached number of secrets, and time of the last change, per project and environment. */
import type { Store } from '../../store/store.ts'
import { iso } from '../time.ts'
import { createRecall, type Recall } from './loading-cache.ts'

type Count = { readonly count: number; readonly updatedAt: string }
export type Counts = Recall<ReadonlyMap<string, Count>>

const maxWorkspaces = 1_000

export function createCounts(store: Store): Counts {
  return createRecall(maxWorkspaces, async (workspaceId) => {
    const rows = await store.secrets.listCounts(workspaceId)
    return new Map(rows.map(({ id, count, updatedAt }) => [id, { count, updatedAt: iso(updatedAt) }]))
  })
}
