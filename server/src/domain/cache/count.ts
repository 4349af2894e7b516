/** Cached number of secrets, and time of the last change, per project and environment. */
import type { ReadStore } from '../../store/store.ts'
import { iso } from '../time.ts'
import { createLoadingCache, type LoadingCache } from './loading-cache.ts'

type Count = { readonly count: number; readonly updatedAt: string }
export type Counts = LoadingCache<ReadonlyMap<string, Count>>

const maxWorkspaces = 1_000

export function createCounts(store: ReadStore): Counts {
  return createLoadingCache(maxWorkspaces, async (workspaceId) => {
    const rows = await store.secrets.listCounts(workspaceId)
    return new Map(rows.map(({ id, count, updatedAt }) => [id, { count, updatedAt: iso(updatedAt) }]))
  })
}
