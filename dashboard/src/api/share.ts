/** Shares of a project: listing, revoking, and creating one that is sealed in this browser or by the service. */
import { ApiError, type IssuedShare, type NewShare } from '@coffer/sdk'
import { type ShareContent, seal } from '@coffer/sdk/share-envelope'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'

type Place = { readonly ws: string; readonly prj: string }

export const sharesQuery = ({ ws, prj }: Place) =>
  queryOptions({ queryKey: ['shares', ws, prj], queryFn: () => api.share.list({ ws, prj }) })

export const shareViewsQuery = ({ ws, prj }: Place, id: string) =>
  queryOptions({ queryKey: ['share-views', id], queryFn: () => api.share.listViews({ ws, prj, id }), staleTime: 0 })

/** Names, ids and references of the secrets of an environment, without values. */
export const shareableQuery = ({ ws, prj }: Place, environmentId: string) =>
  queryOptions({
    queryKey: ['shareable', ws, prj, environmentId],
    queryFn: () => api.secret.list({ ws, prj }, { environmentId, view: 'cells' }),
  })

const refresh = ({ ws, prj }: Place) => queryClient.invalidateQueries({ queryKey: ['shares', ws, prj] })

export async function revokeShare({ ws, prj }: Place, id: string): Promise<void> {
  await api.share.revoke({ ws, prj, id })
  await refresh({ ws, prj })
}

/** Browsers offer cryptography only to pages that came by https or from this machine. */
export const canSealHere = () => globalThis.isSecureContext && crypto.subtle !== undefined

export type Shared =
  | { readonly text: string }
  | { readonly secrets: readonly { readonly id: string; readonly name: string }[]; readonly environmentId: string }

type ShareLimits = Pick<NewShare, 'expiresIn' | 'maxViews' | 'label' | 'password'>

/** Returns the link with its key, which exists nowhere else. */
export async function createShare(
  place: Place,
  shared: Shared,
  { password, ...limits }: ShareLimits,
  isSealedHere: boolean,
): Promise<IssuedShare> {
  const issued = isSealedHere
    ? await createSealed(place, shared, limits, password)
    : await api.share.create(place, {
        ...limits,
        ...(password !== undefined && { password }),
        ...('text' in shared ? { content: shared.text } : { secrets: rowsOf(shared) }),
      })
  await refresh(place)
  return issued
}

async function createSealed(
  place: Place,
  shared: Shared,
  limits: Omit<ShareLimits, 'password'>,
  password: string | undefined,
): Promise<IssuedShare> {
  const { envelope, fragment } = await seal(await contentOf(place, shared), password)
  const issued = await api.share.create(place, { ...limits, envelope })
  return { ...issued, url: issued.url + fragment }
}

async function contentOf(place: Place, shared: Shared): Promise<ShareContent> {
  if ('text' in shared) return { t: 'text', v: shared.text }
  const { secrets, environmentId } = shared
  const items = secrets.map(async ({ id, name }) => {
    const { values } = await api.secret.read({ ...place, key: id }, { environmentId })
    // Only the shared value: a personal one is for its owner.
    const value = values.find(({ isPersonal }) => !isPersonal)?.value
    if (value === undefined) throw new ApiError(`${name} no longer has a value in this environment.`, 404)
    return { name, value }
  })
  return { t: 'kv', items: await Promise.all(items) }
}

const rowsOf = ({ secrets, environmentId }: Extract<Shared, { secrets: unknown }>) =>
  secrets.map(({ id }) => ({ id, environmentId }))
