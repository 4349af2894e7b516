/** API tokens. Their values are returned once and never enter the cache. */
import type { IssuedToken, NewToken, TokenRotation } from '@coffer/sdk'
import { infiniteQueryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { loadPage, paged } from './list-page.ts'
import { queryClient } from './query-client.ts'

export const tokensQuery = (ws: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['tokens', ws],
    queryFn: ({ pageParam }) => loadPage(pageParam, (query, options) => api.token.list({ ws }, query, options)),
  })

export async function createToken(ws: string, fields: NewToken): Promise<IssuedToken> {
  const issued = await api.token.create({ ws }, fields)
  await refresh(ws)
  return issued
}

export async function rotateToken(ws: string, id: string, rotation: TokenRotation): Promise<IssuedToken> {
  const issued = await api.token.rotate({ ws, id }, rotation)
  await refresh(ws)
  return issued
}

export async function revokeToken(ws: string, id: string): Promise<void> {
  await api.token.revoke({ ws, id })
  await refresh(ws)
}

const refresh = (ws: string) => queryClient.invalidateQueries({ queryKey: ['tokens', ws] })
