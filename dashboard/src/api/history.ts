/** Versions of a value, revisions of an environment, differences between environments, and copies from one to another. */
import type { Promotion, RevisionResults } from '@coffer/sdk'
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { loadPage, paged } from './list-page.ts'

export type ProjectPlace = { readonly ws: string; readonly prj: string }

export const versionsQuery = ({ ws, prj }: ProjectPlace, key: string, environmentId: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['versions', ws, prj, key, environmentId],
    queryFn: ({ pageParam }) =>
      loadPage(pageParam, (query, options) =>
        api.secret.listVersions({ ws, prj, key }, { ...query, environmentId }, options),
      ),
  })

/** Recorded as a read. Undefined for a deletion. */
export async function readVersion(
  place: ProjectPlace,
  key: string,
  version: number,
  environmentId: string,
): Promise<string | undefined> {
  return (await api.secret.readVersion({ ...place, key, version }, { environmentId })).value
}

export const restoreVersion = (place: ProjectPlace, key: string, version: number, environmentId: string) =>
  api.secret.restoreVersion({ ...place, key, version }, { environmentId })

export const revisionsQuery = ({ ws, prj }: ProjectPlace, environmentId: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['revisions', ws, prj, environmentId],
    queryFn: ({ pageParam }) =>
      loadPage(pageParam, (query, options) => api.secret.listRevisions({ ws, prj, environmentId }, query, options)),
  })

/** The plan of a restore. Each plan is recorded as a comparison, so it is not repeated without need. */
export const restorePlanQuery = (place: ProjectPlace, environmentId: string, revision: number) =>
  queryOptions({
    queryKey: ['restore-plan', place, environmentId, revision],
    queryFn: () => api.secret.restoreRevision({ ...place, environmentId, revision }, { dryRun: true }),
    refetchOnWindowFocus: false,
    gcTime: 0,
  })

export const restoreRevision = (
  place: ProjectPlace,
  environmentId: string,
  revision: number,
  message: string,
): Promise<RevisionResults> =>
  api.secret.restoreRevision({ ...place, environmentId, revision }, message === '' ? {} : { message })

/** Names only. Each comparison is recorded, so it is not repeated without need. */
export const diffQuery = ({ ws, prj }: ProjectPlace, from: string, to: string) =>
  queryOptions({
    queryKey: ['diff', ws, prj, from, to],
    queryFn: () => api.secret.diff({ ws, prj }, { from, to }),
    refetchOnWindowFocus: false,
  })

/** Recorded as a read of every value that differs. Never cached. */
export const readDiffValues = async (place: ProjectPlace, from: string, to: string) =>
  (await api.secret.diff(place, { from, to, values: true })).values ?? {}

type PromotionPlan = Pick<Promotion, 'from' | 'keys' | 'mode'>

/** The digest in the answer binds a promotion to this plan. */
export const promotionPlanQuery = (place: ProjectPlace, environmentId: string, promotion: PromotionPlan) =>
  queryOptions({
    queryKey: ['promotion-plan', place, environmentId, promotion],
    queryFn: () => promote(place, environmentId, { ...promotion, dryRun: true }),
    refetchOnWindowFocus: false,
    gcTime: 0,
  })

export const promote = (place: ProjectPlace, environmentId: string, promotion: Promotion) =>
  api.secret.promote({ ...place, environmentId }, promotion)
