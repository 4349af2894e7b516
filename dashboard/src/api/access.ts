/** Who may do what in a workspace, and why. */
import type { AccessRow, ExplainQuery } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

/** The longest page that the service gives. */
const pageLength = 200

/** People and machines with access to a project. The whole list: it is filtered and exported as one. */
export const accessQuery = (ws: string, project: string) =>
  queryOptions({
    queryKey: ['access', ws, project],
    queryFn: async () => {
      const rows: AccessRow[] = []
      let cursor: string | undefined
      do {
        const query = { project, limit: pageLength, ...(cursor !== undefined && { cursor }) }
        const page = await api.access.list({ ws }, query, {
          onResponse({ nextCursor }) {
            cursor = nextCursor
          },
        })
        rows.push(...page)
      } while (cursor !== undefined)
      return rows
    },
    enabled: project !== '',
  })

export const explanationQuery = (ws: string, question: ExplainQuery) =>
  queryOptions({ queryKey: ['explanation', ws, question], queryFn: () => api.access.explain({ ws }, question) })
