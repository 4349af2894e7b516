import { type FormEvent, useState } from 'react'
import { refreshProject } from '../../../api/refresh.ts'
import { removeReminder, setReminder } from '../../../api/secret.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { say } from '../../../parts/toast.tsx'
import type { GridEnvironment, GridRow } from '../cells.ts'

type ReminderProps = {
  readonly ws: string
  readonly prj: string
  readonly row: GridRow
  readonly environment: GridEnvironment
}

/** A date on which the shared value should be changed. It is saved at once. */
export function Reminder({ ws, prj, row, environment }: ReminderProps) {
  const stored = row.cells.get(environment.id)?.shared?.reminder
  const storedDay = stored?.nextReminderDate.slice(0, 10) ?? ''
  const [day, setDay] = useState(storedDay)
  const [everyDays, setEveryDays] = useState('')
  const days = everyDays === '' ? undefined : Number(everyDays)
  const isValid = days === undefined || (Number.isInteger(days) && days >= 1 && days <= 3650)
  const put = useAction(async () => {
    await setReminder(ws, prj, row.id, environment.id, day, days)
    await refreshProject(ws, prj)
    say('Saved the reminder.')
  })
  const end = useAction(async () => {
    await removeReminder(ws, prj, row.id, environment.id)
    await refreshProject(ws, prj)
    setDay('')
    setEveryDays('')
    say('Removed the reminder.')
  })

  function save(event: FormEvent): void {
    event.preventDefault()
    void put.run()
  }

  return (
    <form className="about" onSubmit={save}>
      <h3 className="font-semibold">Reminder to rotate, in {environment.name}</h3>
      <div className="grid grid-cols-2 gap-3">
        <TextField label="Next on" type="date" value={day} onChange={(event) => setDay(event.target.value)} />
        <TextField
          label="Repeat every … days"
          type="number"
          min={1}
          max={3650}
          hint={
            stored?.type === 'recurring'
              ? 'It repeats now. Without a number it comes once more, then never.'
              : undefined
          }
          value={everyDays}
          onChange={(event) => setEveryDays(event.target.value)}
        />
      </div>
      <ErrorNote error={put.error ?? end.error} />
      <div className="flex gap-2">
        <Button type="submit" disabled={day === '' || !isValid} isBusy={put.isBusy}>
          Save reminder
        </Button>
        {stored && (
          <Button isBusy={end.isBusy} onClick={() => void end.run()}>
            Remove reminder
          </Button>
        )}
      </div>
    </form>
  )
}
