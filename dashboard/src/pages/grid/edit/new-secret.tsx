import { type FormEvent, useId, useState } from 'react'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { TextAreaField, TextField } from '../../../parts/field.tsx'
import type { GridEnvironment } from '../cells.ts'
import { warnOfName } from '../no-variable.tsx'
import type { Grid } from '../use-grid.ts'
import { freshId } from './edits.ts'
import { checkName } from './name-rule.ts'
import { isTaken } from './rename-editor.tsx'

type NewProps = {
  readonly environments: readonly GridEnvironment[]
  readonly grid: Grid
  readonly onClose: () => void
}

/** Name and values of a new secret. It joins the unsaved changes. */
export function NewSecretDialog({ environments, grid, onClose }: NewProps) {
  const form = useId()
  const [name, setName] = useState('')
  const [note, setNote] = useState('')
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [isChecked, setChecked] = useState(false)
  const nameError = checkName(name, (other) => isTaken(other, undefined, grid.view))
  const given = environments.filter(({ id }) => (values[id] ?? '') !== '')
  const valueError = given.length === 0 ? 'Give it a value in at least one environment.' : undefined
  const source = given[0]
  const isAlone = given.length === 1 && environments.length > 1

  function add(event: FormEvent): void {
    event.preventDefault()
    setChecked(true)
    if (nameError !== undefined || valueError !== undefined) return
    const id = freshId(name, grid.edits.now.fresh)
    grid.addSecret(
      { id, name, note: note.trim() },
      given.map(({ id: environmentId }) => ({
        ...{ secretId: id, environmentId, isPersonal: false, name, baseVersion: 0 },
        value: values[environmentId] ?? '',
      })),
    )
    onClose()
  }

  const actions = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" type="submit" form={form}>
        Add
      </Button>
    </>
  )
  // An empty name is no mistake before the first attempt; others are shown while typing.
  const shownNameError = isChecked || name !== '' ? nameError : undefined
  return (
    <Dialog
      title="New secret"
      isOpen
      keepsOpen
      onClose={onClose}
      description="Leave a value blank where the secret should be missing. You review everything before it is saved."
      actions={actions}
    >
      <form id={form} className="flex flex-col gap-3" onSubmit={add}>
        <TextField
          label="Name"
          className="font-mono"
          placeholder="DATABASE_URL"
          maxLength={255}
          value={name}
          onChange={(event) => setName(event.target.value)}
          error={shownNameError}
          hint={shownNameError === undefined && warnOfName(name)}
        />
        {environments.map((environment, index) => (
          <TextAreaField
            key={environment.id}
            label={`Value in ${environment.name}`}
            rows={1}
            value={values[environment.id] ?? ''}
            onChange={(event) => setValues({ ...values, [environment.id]: event.target.value })}
            error={isChecked && index === 0 ? valueError : undefined}
          />
        ))}
        {isAlone && source && (
          <Button
            className="self-start"
            onClick={() =>
              setValues(Object.fromEntries(environments.map(({ id }) => [id, values[source.id] ?? ''] as const)))
            }
          >
            Use the value of {source.name} everywhere
          </Button>
        )}
        <TextField
          label="Note"
          hint="What it is for, and where it comes from. Not encrypted like a value: do not write one here."
          maxLength={4096}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
      </form>
    </Dialog>
  )
}
