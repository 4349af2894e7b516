import type { AuditEntry, AuditVerdict, ProjectSummary } from '@coffer/sdk'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useState } from 'react'
import { type AuditFilter, auditQuery, exportAddress, verifyAudit } from '../../api/audit.ts'
import { pageLength } from '../../api/list-page.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { useAction } from '../../parts/action.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/note.tsx'
import { EmptyState, Page, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'
import { absoluteTime, Time } from '../../parts/time.tsx'
import { EntryDrawer } from './entry-drawer.tsx'
import { typeName } from './filter.ts'
import { FilterBar } from './filter-bar.tsx'
import { useGoingOn } from './use-going-on.ts'
import './audit.css'

const route = getRouteApi('/signed-in/$ws/-/audit')

export function Audit() {
  const { canManageWorkspace } = useRights()
  if (canManageWorkspace) return <Trail />
  return (
    <Page title="Audit">
      <EmptyState title="You cannot see the audit log of this workspace">
        <p>It needs an admin whose scope is the whole workspace.</p>
      </EmptyState>
    </Page>
  )
}

function Trail() {
  const { ws } = route.useParams()
  const filter = route.useSearch()
  const navigate = route.useNavigate()
  const [verdict, setVerdict] = useState<AuditVerdict>()
  const verify = useAction(async () => setVerdict(await verifyAudit(ws)))
  const change = (part: AuditFilter) =>
    void navigate({ search: (before) => withoutEmpty({ ...before, ...part }), replace: true })
  const actions = (
    <>
      <Button isBusy={verify.isBusy} onClick={() => void verify.run()}>
        Verify
      </Button>
      <a className="button plain" href={exportAddress(ws, filter)} download={`audit-${ws}.ndjson`}>
        <Icon name="download" /> Export
      </a>
    </>
  )
  return (
    <Page title="Audit" actions={actions}>
      <div role="status">{verdict && <Verdict verdict={verdict} />}</div>
      <ErrorNote error={verify.error} />
      <FilterBar ws={ws} filter={filter} onChange={change} onClear={() => void navigate({ search: {} })} />
      <Entries ws={ws} filter={filter} />
    </Page>
  )
}

/** Fields of a filter that are not set must not stand in the address. */
const withoutEmpty = (filter: AuditFilter): AuditFilter =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ''))

function Verdict({ verdict: { ok, entries, firstBroken, reason } }: { readonly verdict: AuditVerdict }) {
  const count = plural(entries, 'entry', 'entries')
  if (ok) return <Note tone="good">{count}, chain intact.</Note>
  return (
    <Note tone="bad">
      The chain breaks at entry {firstBroken?.toLocaleString('en')}: {reason} The {count} before it are intact. Tell the
      operator of this service, and keep the export.
    </Note>
  )
}

function Entries({ ws, filter }: { readonly ws: string; readonly filter: AuditFilter }) {
  const list = useInfiniteQuery(auditQuery(ws, filter))
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const [open, setOpen] = useState<AuditEntry>()
  const projects = teams.flatMap((team) => team.projects)
  const entries = list.data?.pages.flatMap(({ items }) => items) ?? []
  const last = list.data?.pages.at(-1)
  const isLooking = list.hasNextPage && !list.error && countSinceFull(list.data?.pages ?? []) < pageLength
  const { fetchNextPage } = list
  const loadNext = useCallback(() => void fetchNextPage(), [fetchNextPage])
  useGoingOn(isLooking && !list.isFetching, loadNext)
  const searched = last?.searchedTo !== undefined && isLooking && (
    <p className="text-soft">Looked back to {absoluteTime(last.searchedTo)}, and still looking.</p>
  )
  if (list.isPending) return <Skeleton rows={10} />
  if (list.error && entries.length === 0) return <ErrorNote error={list.error} />
  if (entries.length === 0 && searched) return searched
  if (entries.length === 0) return <p className="text-soft">No entry matches.</p>
  return (
    <>
      <Table label="Entries, newest first" columns={['What', 'Action', 'Actor', 'Place', 'Time']}>
        {entries.map((entry) => (
          // The row opens on a click anywhere; its button is for the keyboard and for screen readers.
          <tr key={entry.id} className="audit-row" onClick={() => setOpen(entry)}>
            <th scope="row">
              <button type="button" className="audit-open">
                <span className="font-normal text-soft">{typeName(entry.entity.type)}</span> {entry.entity.name}
              </button>
            </th>
            <td className="whitespace-nowrap">
              {entry.action.toLowerCase()} {entry.outcome === 'failure' && <Badge tone="bad">refused</Badge>}
            </td>
            <td>{entry.actor.name}</td>
            <td>{placeOf(entry, projects)}</td>
            <td className="text-soft whitespace-nowrap">
              <Time at={entry.at} />
            </td>
          </tr>
        ))}
      </Table>
      <ErrorNote error={list.error} />
      {searched}
      {list.hasNextPage && !isLooking && (
        <Button className="self-start" isBusy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
          Load more
        </Button>
      )}
      {open && <EntryDrawer entry={open} place={placeOf(open, projects)} onClose={() => setOpen(undefined)} />}
    </>
  )
}

/** Entries since the table last had another 50: a page of the service may hold fewer, and the next ones complete it. */
function countSinceFull(pages: readonly { readonly items: readonly AuditEntry[] }[]): number {
  return pages.reduce((count, { items }) => (count >= pageLength ? 0 : count) + items.length, 0)
}

/** Deleted projects and environments have no name any more. */
function placeOf({ projectId, environmentId }: AuditEntry, projects: readonly ProjectSummary[]): string {
  if (projectId === null) return ''
  const project = projects.find(({ id }) => id === projectId)
  if (!project) return 'deleted project'
  if (environmentId === null) return project.name
  const environment = project.environmentList.find(({ id }) => id === environmentId)
  return `${project.name} / ${environment?.name ?? 'deleted environment'}`
}
