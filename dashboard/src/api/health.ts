/** What the service says about its own health, to anybody. */
import { fetchTransport } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'

type Check = { readonly name: string; readonly ok: boolean; readonly message: string }

const every = 10 * 60_000

/** The sentence on backups if they need somebody's attention, otherwise null. */
export const backupWarningQuery = queryOptions({
  queryKey: ['backup-warning'],
  queryFn: async ({ signal }) => {
    const url = `${location.origin}/readyz?verbose`
    const { body } = await fetchTransport({
      method: 'GET',
      url,
      headers: {},
      body: undefined,
      signal,
      maxBytes: 100_000,
    })
    const { checks = [] }: { checks?: readonly Check[] } = JSON.parse(body)
    return checks.find(({ name, ok }) => name === 'backup' && !ok)?.message ?? null
  },
  staleTime: every,
  refetchInterval: every,
  retry: false,
})
