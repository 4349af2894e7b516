/** Syncs of a project: the providers, the setup wizard, plans and runs. */
import type { SyncPlan } from '@coffer/sdk'
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'

type Place = { readonly ws: string; readonly prj: string }
type SyncPlace = Place & { readonly id: string }

/** A sync works in the background: its state is read again while somebody looks at it. */
const refetchInterval = 5_000

export const providersQuery = queryOptions({
  queryKey: ['sync-providers'],
  queryFn: () => api.sync.listProviders(),
  staleTime: Number.POSITIVE_INFINITY,
})

export const syncsQuery = ({ ws, prj }: Place) =>
  queryOptions({ queryKey: ['syncs', ws, prj], queryFn: () => api.sync.list({ ws, prj }), refetchInterval })

export const syncQuery = ({ ws, prj, id }: SyncPlace) =>
  queryOptions({ queryKey: ['sync', ws, prj, id], queryFn: () => api.sync.read({ ws, prj, id }), refetchInterval })

const runsPerPage = 20

export const runsQuery = ({ ws, prj, id }: SyncPlace) =>
  infiniteQueryOptions({
    queryKey: ['sync-runs', ws, prj, id],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam }) => {
      let next: string | undefined
      const query = { limit: runsPerPage, ...(pageParam !== undefined && { cursor: pageParam }) }
      const runs = await api.sync.listRuns({ ws, prj, id }, query, {
        onResponse: ({ nextCursor }) => (next = nextCursor),
      })
      return { runs, next }
    },
    getNextPageParam: ({ next }) => next,
  })

export const runQuery = ({ ws, prj, id, runId }: SyncPlace & { readonly runId: string }) =>
  queryOptions({ queryKey: ['sync-run', id, runId], queryFn: () => api.sync.readRun({ ws, prj, id, runId }) })

/** The form of a step depends on the answers so far, and its plan on the target: it is read each time. */
export const flowStepQuery = (slug: string, syncConfigId: string, step: FlowStepName) =>
  queryOptions({
    queryKey: ['sync-flow', slug, syncConfigId, step],
    queryFn: () => api.sync.readFlowStep({ slug }, { syncConfigId, step }, { timeoutMs: vendorTimeoutMs }),
    staleTime: 0,
    gcTime: 0,
    refetchOnWindowFocus: false,
  })

/** Forms and plans ask the vendor, who may be slow. */
const vendorTimeoutMs = 60_000

export const flowSteps = ['auth', 'target', 'mapping', 'review'] as const
export type FlowStepName = (typeof flowSteps)[number]

export const startSync = (slug: string, projectId: string) => api.sync.start({ slug }, { projectId })

export const submitFlowStep = (
  slug: string,
  syncConfigId: string,
  step: FlowStepName,
  values: Readonly<Record<string, string>>,
) => api.sync.submitFlowStep({ slug }, { syncConfigId, step, values }, { timeoutMs: vendorTimeoutMs })

export const planSync = (place: SyncPlace): Promise<SyncPlan> => api.sync.plan(place, { timeoutMs: vendorTimeoutMs })

async function thenRefresh(place: Place, action: Promise<unknown>): Promise<void> {
  await action
  await refreshSyncs(place)
}

export async function refreshSyncs({ ws, prj }: Place): Promise<void> {
  const areas = ['syncs', 'sync', 'sync-runs']
  await Promise.all(areas.map((area) => queryClient.invalidateQueries({ queryKey: [area, ws, prj] })))
}

export const runSync = (place: SyncPlace) => thenRefresh(place, api.sync.run(place))
export const pauseSync = (place: SyncPlace) => thenRefresh(place, api.sync.pause(place))
export const resumeSync = (place: SyncPlace) => thenRefresh(place, api.sync.resume(place))
/** The queries of the sync itself are left alone: it may be gone, and the page is about to be left. */
export async function deleteSync({ ws, prj, id }: SyncPlace, removesEntries: boolean): Promise<void> {
  await api.sync.delete({ ws, prj, id }, removesEntries ? { remove: 'true' } : {})
  void queryClient.invalidateQueries({ queryKey: ['syncs', ws, prj] })
}
