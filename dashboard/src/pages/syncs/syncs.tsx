import type { Sync } from '@coffer/sdk'
import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { startSync, syncsQuery } from '../../api/sync.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { projectQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { AdminsOnly } from './admins-only.tsx'
import { ProviderTiles } from './provider-tiles.tsx'
import { SyncState } from './state.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/syncs')

export function Syncs() {
  const place = route.useParams()
  const { canAdminister } = useProjectRights()
  const { data: syncs, error } = useQuery({ ...syncsQuery(place), enabled: canAdminister })
  const [isChoosing, setChoosing] = useState(false)
  const start = useStart(place)
  if (!canAdminister) return <AdminsOnly />
  const tiles = <ProviderTiles onChoose={start.mutate} busySlug={start.isPending ? start.variables : undefined} />
  const hasSyncs = syncs !== undefined && syncs.length > 0
  const action = hasSyncs && (
    <Button kind="primary" onClick={() => setChoosing(true)}>
      New sync
    </Button>
  )
  return (
    <ProjectPage actions={action}>
      <ErrorNote error={error ?? (isChoosing ? undefined : start.error)} />
      {!syncs && !error && <Skeleton />}
      {hasSyncs && <SyncTable place={place} syncs={syncs} />}
      {syncs?.length === 0 && (
        <>
          <EmptyState title="Push secrets to the systems that need them">
            <p>
              Choose a target. Nothing is pushed before you have seen the plan and confirmed it, and a sync never
              changes entries that it did not create.
            </p>
          </EmptyState>
          {tiles}
        </>
      )}
      <Dialog
        title="Where should the secrets go?"
        kind="wide"
        isOpen={isChoosing}
        onClose={() => setChoosing(false)}
        description="Nothing is pushed before you have seen the plan and confirmed it."
      >
        <ErrorNote error={start.error} />
        {tiles}
      </Dialog>
    </ProjectPage>
  )
}

type Place = { readonly ws: string; readonly prj: string }

function useStart(place: Place) {
  const navigate = useNavigate()
  const { data: project } = useSuspenseQuery(projectQuery(place.ws, place.prj))
  return useMutation({
    mutationFn: (slug: string) => startSync(slug, project.id),
    onSuccess: ({ syncConfigId }, slug) =>
      navigate({
        to: '/$ws/$prj/syncs/new/$slug/$step',
        params: { ...place, slug, step: 'auth' },
        search: { id: syncConfigId },
      }),
  })
}

function SyncTable({ place, syncs }: { readonly place: Place; readonly syncs: readonly Sync[] }) {
  const { data: project } = useSuspenseQuery(projectQuery(place.ws, place.prj))
  const environments = new Map(project.environments.map(({ id, name }) => [id, name]))
  return (
    <Table label="Syncs" columns={['Name', 'From', 'To', 'State', 'Last push']}>
      {syncs.map((sync) => (
        <tr key={sync.id}>
          <th scope="row">
            <Link className="link" to="/$ws/$prj/syncs/$id" params={{ ...place, id: sync.id }}>
              {sync.name}
            </Link>
          </th>
          <td>{sync.environmentId === null ? '' : (environments.get(sync.environmentId) ?? '')}</td>
          <td className="text-soft">{sync.target ?? sync.provider}</td>
          <td>
            <SyncState sync={sync} />
          </td>
          <td className="text-soft">{sync.lastRunAt === null ? 'never' : <Time at={sync.lastRunAt} />}</td>
        </tr>
      ))}
    </Table>
  )
}
