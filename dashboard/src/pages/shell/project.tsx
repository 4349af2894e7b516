import { useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, Outlet } from '@tanstack/react-router'
import { projectQuery } from '../../api/workspace.ts'

const route = getRouteApi('/signed-in/$ws/$prj')

/** Loads the project once for all of its pages. A project that is missing or out of reach ends in the error page. */
export function ProjectFrame() {
  const { ws, prj } = route.useParams()
  useSuspenseQuery(projectQuery(ws, prj))
  return <Outlet />
}
