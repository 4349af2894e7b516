import type { SyncDetail, SyncPlan } from '@coffer/sdk'
import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { deleteSync, pauseSync, planSync, resumeSync, runSync, syncQuery } from '../../api/sync.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { projectQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField } from '../../parts/field.tsx'
import { Section, Skeleton } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { AdminsOnly } from './admins-only.tsx'
import { Banner } from './banner.tsx'
import { Plan } from './plan.tsx'
import { Runs } from './runs.tsx'
import { SyncState } from './state.tsx'
import './syncs.css'

const route = getRouteApi('/signed-in/$ws/$prj/syncs/$id')

type SyncPlace = { readonly ws: string; readonly prj: string; readonly id: string }

export function SyncPage() {
  const place = route.useParams()
  const { canAdminister } = useProjectRights()
  const { data: sync, error } = useQuery({ ...syncQuery(place), enabled: canAdminister })
  if (!canAdminister) return <AdminsOnly />
  return (
    <ProjectPage>
      <ErrorNote error={error} />
      {!sync && !error && <Skeleton />}
      {sync && (
        <>
          <Overview place={place} sync={sync} />
          {sync.state !== 'draft' && <Preview place={place} />}
          {sync.state !== 'draft' && <Runs place={place} />}
        </>
      )}
    </ProjectPage>
  )
}

function Overview({ place, sync }: { readonly place: SyncPlace; readonly sync: SyncDetail }) {
  const { data: project } = useSuspenseQuery(projectQuery(place.ws, place.prj))
  const environment = project.environments.find(({ id }) => id === sync.environmentId)?.name
  const [isDeleting, setDeleting] = useState(false)
  const act = useMutation({ mutationFn: (action: (place: SyncPlace) => Promise<void>) => action(place) })
  const isLive = sync.state !== 'draft' && sync.state !== 'removing'
  const actions = (
    <div className="flex flex-wrap gap-2">
      {isLive && sync.state !== 'paused' && <Button onClick={() => act.mutate(pauseSync)}>Pause</Button>}
      {isLive && (
        <Link
          className="button plain"
          to="/$ws/$prj/syncs/new/$slug/$step"
          params={{ ...place, slug: sync.provider, step: 'target' }}
          search={{ id: place.id }}
        >
          Change
        </Link>
      )}
      <Button onClick={() => setDeleting(true)}>Delete</Button>
      {sync.state === 'active' && (
        <Button kind="primary" isBusy={act.isPending} onClick={() => act.mutate(runNow)}>
          Push now
        </Button>
      )}
    </div>
  )
  return (
    <Section title={sync.name} actions={actions}>
      <dl className="plan">
        <dt className="text-soft">State</dt>
        <dd>
          <SyncState sync={sync} />
        </dd>
        <dt className="text-soft">From</dt>
        <dd>{environment ?? 'not chosen yet'}</dd>
        <dt className="text-soft">To</dt>
        <dd>
          {sync.provider}
          {sync.target !== null && `, ${sync.target}`}
        </dd>
        {sync.account !== null && (
          <>
            <dt className="text-soft">As</dt>
            <dd>{sync.account}</dd>
          </>
        )}
      </dl>
      <ErrorNote error={act.error} />
      <Banner
        place={place}
        sync={sync}
        isBusy={act.isPending}
        onResume={() => act.mutate(resumeSync)}
        onRun={() => act.mutate(runNow)}
      />
      <DeleteDialog place={place} sync={sync} isOpen={isDeleting} onClose={() => setDeleting(false)} />
    </Section>
  )
}

async function runNow(place: SyncPlace): Promise<void> {
  await runSync(place)
  say('The push has started.')
}

/** The plan of the next push. It asks the target, so it is made only when somebody wants to see it. */
function Preview({ place }: { readonly place: SyncPlace }) {
  const plan = useMutation<SyncPlan>({ mutationFn: () => planSync(place) })
  const button = (
    <Button isBusy={plan.isPending} onClick={() => plan.mutate()}>
      {plan.data ? 'Look again' : 'Show the plan'}
    </Button>
  )
  return (
    <Section title="Next push" hint="Names only. Nothing changes by looking." actions={button}>
      <ErrorNote error={plan.error} />
      {plan.data && <Plan plan={plan.data} />}
    </Section>
  )
}

type DeleteProps = {
  readonly place: SyncPlace
  readonly sync: SyncDetail
  readonly isOpen: boolean
  readonly onClose: () => void
}

function DeleteDialog({ place, sync, isOpen, onClose }: DeleteProps) {
  const navigate = useNavigate()
  const [removesEntries, setRemovesEntries] = useState(false)
  async function remove(): Promise<void> {
    await deleteSync(place, removesEntries)
    say(removesEntries ? `${sync.name} is being removed.` : `${sync.name} is deleted.`)
    await navigate({ to: '/$ws/$prj/syncs', params: { ws: place.ws, prj: place.prj } })
  }
  return (
    <ConfirmDialog
      title={`Delete ${sync.name}?`}
      isOpen={isOpen}
      onClose={onClose}
      action={`Delete ${sync.name}`}
      onConfirm={remove}
    >
      <p>It pushes nothing any more. The entries that it wrote stay at the target, unless you remove them too.</p>
      {sync.state !== 'draft' && (
        <CheckField
          label="Also delete the entries that it created at the target"
          hint="Entries that it adopted or that others have changed stay."
          checked={removesEntries}
          onChange={(event) => setRemovesEntries(event.target.checked)}
        />
      )}
    </ConfirmDialog>
  )
}
