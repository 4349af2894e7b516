/** Names of secrets over all projects of a workspace; never values. */
import { infiniteQueryOptions, keepPreviousData } from '@tanstack/react-query'
import { api } from './client.ts'
import { loadPage, paged } from './list-page.ts'

export const searchQuery = (ws: string, q: string) =>
  infiniteQueryOptions({
    queryKey: ['secret-search', ws, q],
    queryFn: ({ pageParam, signal }) =>
      loadPage(pageParam, (page, options) => api.secret.search({ ws }, { q, ...page }, { ...options, signal })),
    ...paged,
    placeholderData: keepPreviousData,
  })
