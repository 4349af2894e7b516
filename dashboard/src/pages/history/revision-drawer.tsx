import type { Revision } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type ProjectPlace, restorePlanQuery, restoreRevision } from '../../api/history.ts'
import { refreshProject } from '../../api/refresh.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { absoluteTime } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { isChange, PlanList } from '../plan/plan-list.tsx'
import { nameToType } from '../plan/production.ts'

type RevisionDrawerProps = {
  readonly place: ProjectPlace
  readonly environment: { readonly id: string; readonly name: string }
  readonly revision: Revision
  /** The newest revision is the present state: there is nothing to restore. */
  readonly isNewest: boolean
  readonly onClose: () => void
}

/** Shows the changes of one revision and, to people who may write, the plan of its restore. */
export function RevisionDrawer({ place, environment, revision, isNewest, onClose }: RevisionDrawerProps) {
  const canWrite = useProjectRights().canWriteIn(environment.id)
  const [isRestoring, setRestoring] = useState(false)
  const { createdAt, createdBy, message, changes } = revision
  return (
    <Dialog
      title={`Revision ${revision.revision} of ${environment.name}`}
      kind="drawer"
      isOpen
      isBusy={isRestoring}
      onClose={onClose}
      description={`${createdBy}, ${absoluteTime(createdAt)}`}
    >
      {message && <p className="break-words">{message}</p>}
      <section className="flex flex-col gap-2" aria-label="Changes">
        <h3 className="font-semibold">It changed {plural(changes.length, 'key')}</h3>
        <ul className="flex flex-col">
          {changes.slice(0, shownChanges).map(({ key, action, from }) => (
            <li key={`${action} ${key}`} className="flex min-h-7 items-center gap-2 border-line not-last:border-b">
              <Link
                className="link min-w-0 flex-1 truncate font-mono text-s leading-6"
                to="/$ws/$prj"
                params={place}
                search={{ key, environment: environment.name }}
                title={`Go to ${key}`}
              >
                {key}
              </Link>
              <span className="text-s text-soft">{from === undefined ? action : `renamed from ${from}`}</span>
            </li>
          ))}
        </ul>
        {changes.length > shownChanges && <p className="hint">{`and ${changes.length - shownChanges} more`}</p>}
      </section>
      {isNewest && <p className="text-soft">{`This is how ${environment.name} stands now.`}</p>}
      {canWrite && !isNewest && (
        <Restore
          place={place}
          environment={environment}
          revision={revision.revision}
          onBusy={setRestoring}
          onClose={onClose}
        />
      )}
    </Dialog>
  )
}

const shownChanges = 100

type RestoreProps = {
  readonly place: ProjectPlace
  readonly environment: { readonly id: string; readonly name: string }
  readonly revision: number
  readonly onBusy: (isBusy: boolean) => void
  readonly onClose: () => void
}

function Restore({ place, environment, revision, onBusy, onClose }: RestoreProps) {
  const plan = useQuery(restorePlanQuery(place, environment.id, revision))
  const [message, setMessage] = useState('')
  const [typedText, setTypedText] = useState('')
  const typed = nameToType([environment])
  const run = useAction(async () => {
    const { results } = await restoreRevision(place, environment.id, revision, message)
    await refreshProject(place.ws, place.prj)
    const changed = plural(results.filter(isChange).length, 'key')
    say(`${environment.name} is as it was after revision ${revision}: ${changed} changed.`)
    onClose()
  })
  const changes = plan.data?.results.filter(isChange) ?? []

  async function restore(): Promise<void> {
    onBusy(true)
    await run.run()
    onBusy(false)
  }

  return (
    <section className="flex flex-col gap-3 border-t border-line pt-3" aria-label="Restore">
      <h3 className="font-semibold">{`Bring ${environment.name} back to this revision`}</h3>
      {plan.isPending && <Skeleton rows={2} />}
      <ErrorNote error={plan.error} />
      {plan.data && changes.length === 0 && <p className="text-soft">Nothing would change: the values are the same.</p>}
      {changes.length > 0 && (
        <>
          <p>Restoring would do this, as a new revision:</p>
          <PlanList results={changes} />
          <TextField
            label="Message"
            hint="Optional. It stands in the history."
            maxLength={512}
            value={message}
            onChange={(event) => setMessage(event.target.value)}
          />
          {typed !== undefined && (
            <TextField
              label={`Type ${typed} to confirm`}
              value={typedText}
              onChange={(event) => setTypedText(event.target.value)}
            />
          )}
          <ErrorNote error={run.error} />
          <div>
            <Button
              kind="primary"
              isBusy={run.isBusy}
              disabled={typed !== undefined && typedText !== typed}
              onClick={() => void restore()}
            >
              {`Restore revision ${revision}`}
            </Button>
          </div>
        </>
      )}
    </section>
  )
}
