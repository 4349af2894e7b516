import { ApiError } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type ProjectPlace, promote, promotionPlanQuery } from '../../api/history.ts'
import { refreshProject } from '../../api/refresh.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { Note } from '../../parts/note.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { say } from '../../parts/toast.tsx'
import { ModeField, type WriteMode } from '../plan/mode-field.tsx'
import { isChange, PlanList } from '../plan/plan-list.tsx'
import { nameToType } from '../plan/production.ts'
import type { Sides } from './comparison.ts'

type PromoteDialogProps = {
  readonly place: ProjectPlace
  readonly sides: Sides
  readonly keys: readonly string[]
  readonly onClose: () => void
  readonly onPromoted: () => void
}

/** The plan of the service, and the promotion. Only the plan that was shown is carried out: a changed one is shown anew. */
export function PromoteDialog({ place, sides: { from, to }, keys, onClose, onPromoted }: PromoteDialogProps) {
  const [mode, setMode] = useState<WriteMode>('upsert')
  const [message, setMessage] = useState('')
  const [typedText, setTypedText] = useState('')
  const [hasChanged, setHasChanged] = useState(false)
  const promotion = { from: from.id, keys: [...keys], mode }
  const plan = useQuery(promotionPlanQuery(place, to.id, promotion))
  const changes = plan.data?.results.filter(isChange).length ?? 0
  const meetsValues = plan.data?.results.some(({ status }) => status !== 'created')
  const typed = nameToType([to])

  const run = useAction(async () => {
    if (!plan.data) return
    setHasChanged(false)
    try {
      const { results } = await promote(place, to.id, {
        ...promotion,
        ...(message !== '' && { message }),
        ifDiff: plan.data.diff,
      })
      await refreshProject(place.ws, place.prj)
      say(`Promoted ${plural(results.filter(isChange).length, 'key')} from ${from.name} to ${to.name}.`)
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 412)) throw error
      setTypedText('')
      await plan.refetch()
      return setHasChanged(true)
    }
    onPromoted()
    onClose()
  })

  const isReady = plan.isSuccess && !plan.isFetching && changes > 0 && (typed === undefined || typedText === typed)
  return (
    <Dialog
      title={`Promote from ${from.name} to ${to.name}`}
      kind="wide"
      isOpen
      keepsOpen
      isBusy={run.isBusy}
      onClose={onClose}
      description={`Values are copied to ${to.name}. Nothing is deleted there.`}
      actions={
        <>
          <Button disabled={run.isBusy} onClick={onClose}>
            Cancel
          </Button>
          <Button kind="primary" isBusy={run.isBusy} disabled={!isReady} onClick={() => void run.run()}>
            {plan.isSuccess && changes === 0 ? 'Nothing to promote' : `Promote ${plural(changes, 'key')}`}
          </Button>
        </>
      }
    >
      {hasChanged && (
        <div role="alert">
          <Note tone="warn">
            {`Something changed in ${from.name} or ${to.name} meanwhile, and nothing was promoted. This is the new plan.`}
          </Note>
        </div>
      )}
      {plan.data && !plan.error && <PlanList results={plan.data.results} />}
      {plan.isPending && <Skeleton rows={2} />}
      <ErrorNote error={plan.error ?? run.error} />
      {(mode !== 'upsert' || meetsValues) && (
        <div className="sm:w-80">
          <ModeField mode={mode} onChange={setMode} />
        </div>
      )}
      <TextField
        label="Message"
        hint={`Optional, for the history of ${to.name}. Do not write values here.`}
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
    </Dialog>
  )
}
