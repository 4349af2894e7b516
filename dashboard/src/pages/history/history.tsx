import type { Revision } from '@coffer/sdk'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type ProjectPlace, revisionsQuery } from '../../api/history.ts'
import { environmentsQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField } from '../../parts/field.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { ChangeCounts } from './change-counts.tsx'
import { RevisionDrawer } from './revision-drawer.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/history')

export function History() {
  const { ws, prj } = route.useParams()
  const search = route.useSearch()
  const navigate = useNavigate()
  const { data: environments = [], error, isPending } = useQuery(environmentsQuery(ws, prj))
  const environment =
    environments.find(({ id, name }) => id === search.environment || name === search.environment) ?? environments[0]
  return (
    <ProjectPage>
      <ErrorNote error={error} />
      {isPending && <Skeleton />}
      {environment && (
        <>
          <div className="w-50">
            <SelectField
              label="Environment"
              value={environment.name}
              onChange={(event) =>
                void navigate({
                  to: '/$ws/$prj/history',
                  params: { ws, prj },
                  search: { environment: event.target.value },
                })
              }
            >
              {environments.map(({ id, name }) => (
                <option key={id}>{name}</option>
              ))}
            </SelectField>
          </div>
          <Revisions key={environment.id} place={{ ws, prj }} environment={environment} />
        </>
      )}
    </ProjectPage>
  )
}

type RevisionsProps = {
  readonly place: ProjectPlace
  readonly environment: { readonly id: string; readonly name: string }
}

function Revisions({ place, environment }: RevisionsProps) {
  const query = useInfiniteQuery(revisionsQuery(place, environment.id))
  const [opened, setOpened] = useState<Revision>()
  if (query.error && !query.data) return <ErrorNote error={query.error} />
  if (!query.data) return <Skeleton />
  const revisions = query.data.pages.flatMap(({ items }) => items)
  const newest = revisions[0]?.revision
  if (newest === undefined) {
    return (
      <EmptyState title={`Nothing has been written to ${environment.name} yet`}>
        <p>Every change of its secrets will be listed here, and can be undone from here.</p>
      </EmptyState>
    )
  }
  return (
    <>
      <Table label={`Revisions of ${environment.name}`} columns={['Revision', 'When', 'Changes', 'Who', 'Message']}>
        {revisions.map((revision) => (
          <tr key={revision.revision}>
            <th scope="row">
              <button
                type="button"
                className="link min-h-6 min-w-6 text-left"
                aria-label={`Revision ${revision.revision}`}
                onClick={() => setOpened(revision)}
              >
                {revision.revision}
              </button>
            </th>
            <td className="whitespace-nowrap">
              <Time at={revision.createdAt} />
            </td>
            <td>
              <ChangeCounts changes={revision.changes} />
            </td>
            <td className="max-w-60 truncate" title={revision.createdBy}>
              {revision.createdBy}
            </td>
            <td className="max-w-80 truncate" title={revision.message}>
              {revision.message}
            </td>
          </tr>
        ))}
      </Table>
      {query.hasNextPage && (
        <div>
          <Button isBusy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Load more
          </Button>
        </div>
      )}
      <ErrorNote error={query.error} />
      {opened && (
        <RevisionDrawer
          place={place}
          environment={environment}
          revision={opened}
          isNewest={opened.revision === newest}
          onClose={() => setOpened(undefined)}
        />
      )}
    </>
  )
}
