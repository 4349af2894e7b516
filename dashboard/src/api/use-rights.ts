import { useSuspenseQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import { findWorkspace, type ProjectRights, projectRightsIn, type Rights, rightsIn } from './right.ts'
import { projectQuery, workspacesQuery } from './workspace.ts'

/** For pages below `/:ws`. */
export function useRights(): Rights {
  const { ws } = useParams({ from: '/signed-in/$ws' })
  const { data } = useSuspenseQuery(workspacesQuery)
  const workspace = findWorkspace(data, ws)
  if (!workspace) throw new Error('The layout of a workspace renders its pages only if the workspace exists.')
  return rightsIn(workspace)
}

/** For pages of a project. The same object as long as neither grants nor environments change. */
export function useProjectRights(): ProjectRights {
  const { ws, prj } = useParams({ from: '/signed-in/$ws/$prj' })
  const { workspace } = useRights()
  const { data: project } = useSuspenseQuery(projectQuery(ws, prj))
  return useMemo(() => projectRightsIn(workspace, project), [workspace, project])
}
