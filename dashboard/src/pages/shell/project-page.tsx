import { useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useProjectRights } from '../../api/use-rights.ts'
import { projectQuery } from '../../api/workspace.ts'
import { Page } from '../../parts/page.tsx'

const route = getRouteApi('/signed-in/$ws/$prj')

type ProjectPageProps = { readonly actions?: ReactNode; readonly isFull?: boolean; readonly children: ReactNode }

/** A page of a project: its name, the tabs that this person may use, and one primary action. */
export function ProjectPage({ actions, isFull = false, children }: ProjectPageProps) {
  const { ws, prj } = route.useParams()
  const params = { ws, prj }
  const { canWrite, canAdminister } = useProjectRights()
  const { data: project } = useSuspenseQuery(projectQuery(ws, prj))
  const exact = { exact: true }
  const tabs = (
    <nav className="tabs" aria-label="Project">
      <Link to="/$ws/$prj" params={params} activeOptions={exact}>
        Secrets
      </Link>
      <Link to="/$ws/$prj/compare" params={params}>
        Compare
      </Link>
      <Link to="/$ws/$prj/history" params={params}>
        History
      </Link>
      {canAdminister && (
        <Link to="/$ws/$prj/syncs" params={params}>
          Syncs
        </Link>
      )}
      {canWrite && (
        <Link to="/$ws/$prj/shares" params={params}>
          Shares
        </Link>
      )}
      <Link to="/$ws/$prj/trash" params={params}>
        Trash
      </Link>
      {canAdminister && (
        <Link to="/$ws/$prj/settings" params={params}>
          Settings
        </Link>
      )}
    </nav>
  )
  return (
    <Page title={project.name} tabs={tabs} actions={actions} isFull={isFull}>
      {children}
    </Page>
  )
}
