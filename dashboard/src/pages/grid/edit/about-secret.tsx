import { type FormEvent, useState } from 'react'
import { refreshProject } from '../../../api/refresh.ts'
import { describeSecret } from '../../../api/secret.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField, TextAreaField } from '../../../parts/field.tsx'
import { say } from '../../../parts/toast.tsx'
import type { GridRow } from '../cells.ts'
import { dataTypes } from './value-check.ts'

type AboutProps = { readonly ws: string; readonly prj: string; readonly row: GridRow }

/** Note and type belong to the secret in all environments. They are saved at once. */
export function AboutSecret({ ws, prj, row }: AboutProps) {
  const [note, setNote] = useState(row.note)
  const [dataType, setDataType] = useState(row.dataType)
  const action = useAction(async () => {
    await describeSecret(ws, prj, row.id, { note, dataType })
    await refreshProject(ws, prj)
    say('Saved note and type.')
  })
  const isChanged = note !== row.note || dataType !== row.dataType

  function save(event: FormEvent): void {
    event.preventDefault()
    void action.run()
  }

  return (
    <form className="about" onSubmit={save}>
      <h3 className="font-semibold">About {row.name}, in all environments</h3>
      <TextAreaField
        label="Note"
        hint="What it is for, and where it comes from. Do not write values here."
        rows={2}
        maxLength={4096}
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
      <SelectField
        label="Type"
        value={dataType}
        onChange={(event) => setDataType(dataTypes.find(({ type }) => type === event.target.value)?.type ?? 'text')}
      >
        {dataTypes.map(({ type, label }) => (
          <option key={type} value={type}>
            {label}
          </option>
        ))}
      </SelectField>
      <ErrorNote error={action.error} />
      <Button type="submit" className="self-start" disabled={!isChanged} isBusy={action.isBusy}>
        Save note and type
      </Button>
    </form>
  )
}
