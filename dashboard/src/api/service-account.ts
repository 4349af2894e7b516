/** Service accounts, their tokens, and what is given to them. Values of tokens are returned once and never cached. */
import type {
  IssuedToken,
  NewServiceAccount,
  NewToken,
  Removal,
  ServiceAccount,
  ServiceAccountChange,
} from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'

export const serviceAccountsQuery = (ws: string) =>
  queryOptions({ queryKey: ['service-accounts', ws], queryFn: () => api.service.list({ ws }) })

export async function createServiceAccount(ws: string, fields: NewServiceAccount): Promise<ServiceAccount> {
  const account = await api.service.create({ ws }, fields)
  await refresh(ws)
  return account
}

export async function changeServiceAccount(ws: string, id: string, change: ServiceAccountChange): Promise<void> {
  await api.service.update({ ws, id }, change)
  await refresh(ws)
}

export async function createServiceToken(ws: string, id: string, fields: NewToken): Promise<IssuedToken> {
  const issued = await api.service.createToken({ ws, id }, fields)
  await refresh(ws)
  return issued
}

/** What would end with a service account. Read each time: it must be true when somebody decides by it. */
export const serviceRemovalQuery = (ws: string, id: string) =>
  queryOptions({
    queryKey: ['removal', ws, id],
    queryFn: () => api.service.remove({ ws, id }, { dryRun: true }),
    ...afresh,
  })

export async function removeServiceAccount(ws: string, id: string): Promise<Removal> {
  const removal = await api.service.remove({ ws, id })
  await refresh(ws, ['service-accounts', 'tokens'])
  return removal
}

export async function transferToken(ws: string, id: string, serviceAccountId: string): Promise<void> {
  await api.token.transfer({ ws, id }, { serviceAccountId })
  await refresh(ws)
}

export async function transferSync(ws: string, prj: string, id: string, serviceAccountId: string): Promise<void> {
  await api.sync.transfer({ ws, prj, id }, { serviceAccountId })
  await refresh(ws)
}

export const afresh = { staleTime: 0, gcTime: 0 } as const

/** What would end with somebody changes with each transfer. */
const refresh = (ws: string, areas: readonly string[] = ['service-accounts', 'tokens', 'removal']) =>
  Promise.all(areas.map((area) => queryClient.invalidateQueries({ queryKey: [area, ws] })))
