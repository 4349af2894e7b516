/** The audit trail of a workspace: pages of entries, its verification, and the address of an export. */
import type { AuditVerdict } from '@coffer/sdk'
import { infiniteQueryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { loadPage, paged } from './list-page.ts'

export type AuditFilter = Partial<
  Record<'actor' | 'action' | 'entity' | 'project' | 'environment' | 'from' | 'to' | 'q', string>
>

export const auditQuery = (ws: string, filter: AuditFilter) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['audit', ws, filter],
    queryFn: ({ pageParam }) =>
      loadPage(pageParam, (query, options) => api.audit.list({ ws }, { ...filter, ...query }, options)),
    staleTime: 0,
    // A search of many pages begins anew only when the page is opened again.
    gcTime: 0,
    refetchOnWindowFocus: false,
  })

/** Long trails take their time. */
const verifyTimeoutMs = 300_000

export const verifyAudit = (ws: string): Promise<AuditVerdict> =>
  api.audit.verify({ ws }, { timeoutMs: verifyTimeoutMs })

/** The browser saves the stream to a file: it is never in the page's memory. */
export const exportAddress = (ws: string, filter: AuditFilter) =>
  `/v1/workspace/${encodeURIComponent(ws)}/audit?${new URLSearchParams({ format: 'ndjson', ...filter })}`
