/** Identities of outside issuers, and templates for well-known ones. */
import type { Identity, IdentityChange, IdentityVerdict, NewIdentity } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'

export const identitiesQuery = (ws: string) =>
  queryOptions({ queryKey: ['identities', ws], queryFn: () => api.oidc.list({ ws }) })

export const presetsQuery = (ws: string) =>
  queryOptions({
    queryKey: ['identity-presets', ws],
    queryFn: () => api.oidc.listPresets({ ws }),
    staleTime: Number.POSITIVE_INFINITY,
  })

export async function createIdentity(ws: string, fields: NewIdentity): Promise<Identity> {
  const identity = await api.oidc.create({ ws }, fields)
  await refresh(ws)
  return identity
}

export async function changeIdentity(ws: string, id: string, change: IdentityChange): Promise<Identity> {
  const identity = await api.oidc.update({ ws, id }, change)
  await refresh(ws)
  return identity
}

export async function deleteIdentity(ws: string, id: string): Promise<void> {
  await api.oidc.delete({ ws, id })
  await refresh(ws)
}

/** The token goes to the service and is kept nowhere. */
export const testIdentity = (ws: string, id: string, token: string): Promise<IdentityVerdict> =>
  api.oidc.test({ ws, id }, { token })

const refresh = (ws: string) => queryClient.invalidateQueries({ queryKey: ['identities', ws] })
