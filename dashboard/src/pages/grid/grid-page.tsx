import { ApiError } from '@coffer/sdk'
import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useMemo } from 'react'
import { cellsQuery } from '../../api/secret.ts'
import { environmentsQuery, projectQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote, sentenceOf } from '../../parts/error-note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { toRows } from './cells.ts'
import { GridWorkspace } from './grid-workspace.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/')

/** Secrets of a project, in all environments that this person sees. */
export function GridPage() {
  const { ws, prj } = route.useParams()
  const { data: project } = useSuspenseQuery(projectQuery(ws, prj))
  const environments = useQuery(environmentsQuery(ws, prj))
  const cells = useQuery(cellsQuery(ws, prj))
  const rows = useMemo(() => cells.data && toRows(cells.data), [cells.data])
  const error = cells.error ?? environments.error
  // A policy can be met again, so what was typed stays. Everything else that is refused is gone for this person.
  const isLost = error instanceof ApiError && (error.status === 404 || (error.status === 403 && !rows))

  if (isLost) {
    return (
      <ProjectPage>
        <EmptyState title="You can no longer see these secrets">
          {error.status === 403
            ? sentenceOf(error)
            : 'The project was deleted, or your access has changed. Ask an admin of the workspace.'}
        </EmptyState>
      </ProjectPage>
    )
  }
  if (!rows || !environments.data) {
    return (
      <ProjectPage isFull>
        {error ? (
          <div className="flex flex-col items-start gap-3 p-6">
            <ErrorNote error={error} />
            <Button onClick={() => void Promise.all([cells.refetch(), environments.refetch()])}>Try again</Button>
          </div>
        ) : (
          <div className="px-6 pt-14">
            <Skeleton rows={12} />
          </div>
        )}
      </ProjectPage>
    )
  }
  return (
    <GridWorkspace
      key={project.id}
      ws={ws}
      prj={prj}
      project={project}
      rows={rows}
      environments={environments.data}
      error={error}
    />
  )
}
