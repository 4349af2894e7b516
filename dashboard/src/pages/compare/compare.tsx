import type { Environment } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { environmentsQuery } from '../../api/workspace.ts'
import { ErrorNote } from '../../parts/error-note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { isProduction } from '../plan/production.ts'
import { ProjectPage } from '../shell/project-page.tsx'
import type { Sides } from './comparison.ts'
import { EnvironmentComparison } from './environment-comparison.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/compare')

export function Compare() {
  const { ws, prj } = route.useParams()
  const search = route.useSearch()
  const navigate = useNavigate()
  const { data: environments, error } = useQuery(environmentsQuery(ws, prj))
  const sides = environments && chooseSides(environments, search)

  if (!environments || !sides) {
    return (
      <ProjectPage>
        {error ? <ErrorNote error={error} /> : environments ? <NothingToCompare /> : <Skeleton />}
      </ProjectPage>
    )
  }
  return (
    <EnvironmentComparison
      key={`${sides.from.id} ${sides.to.id}`}
      place={{ ws, prj }}
      environments={environments}
      sides={sides}
      onSides={({ from, to }) =>
        void navigate({ to: '/$ws/$prj/compare', params: { ws, prj }, search: { from: from.name, to: to.name } })
      }
    />
  )
}

function NothingToCompare() {
  return (
    <EmptyState title="There is nothing to compare">
      <p>A comparison needs two environments, and you have access to one. An admin can give you access to more.</p>
    </EmptyState>
  )
}

/** By name or id. Without a choice, the last environment before production is compared with production. */
function chooseSides(
  environments: readonly Environment[],
  search: { readonly from?: string; readonly to?: string },
): Sides | undefined {
  const find = (wanted: string | undefined) => environments.find(({ id, name }) => id === wanted || name === wanted)
  const chosenFrom = find(search.from)
  const to =
    find(search.to) ??
    environments.find((one) => isProduction(one.name) && one !== chosenFrom) ??
    environments.findLast((one) => one !== chosenFrom)
  const from = chosenFrom ?? environments.findLast((one) => one !== to)
  return from && to && from !== to ? { from, to } : undefined
}
