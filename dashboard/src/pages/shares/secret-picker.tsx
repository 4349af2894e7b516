import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { shareableQuery } from '../../api/share.ts'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField, TextField } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'

export type PickedSecret = { readonly id: string; readonly name: string; readonly hasReferences: boolean }

type PickerProps = {
  readonly place: { readonly ws: string; readonly prj: string }
  readonly environmentId: string
  readonly picked: readonly PickedSecret[]
  readonly onPick: (picked: readonly PickedSecret[]) => void
}

/** A longer list is narrowed by the filter. */
const shownAtOnce = 100
/** Each is read by a request of its own. */
const maxPicked = 20

export function SecretPicker({ place, environmentId, picked, onPick }: PickerProps) {
  const { data: secrets, error } = useQuery(shareableQuery(place, environmentId))
  const [filter, setFilter] = useState('')
  if (error) return <ErrorNote error={error} />
  if (!secrets) return <Skeleton rows={3} />
  const wanted = filter.toLowerCase()
  const offered = secrets.flatMap(({ id, name, values }) => {
    const row = values.find(({ isPersonal }) => !isPersonal)
    return row ? [{ id, name, hasReferences: (row.references ?? []).length > 0 }] : []
  })
  if (offered.length === 0) return <p className="text-soft">This environment has no secrets yet.</p>
  const found = offered.filter(({ name }) => name.toLowerCase().includes(wanted))
  const isFull = picked.length >= maxPicked
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="text-s font-[550]">
        Secrets {picked.length > 0 && <span className="text-soft">({picked.length} chosen)</span>}
      </legend>
      <TextField
        label="Filter"
        isLabelHidden
        placeholder={`Filter ${plural(offered.length, 'secret')}`}
        value={filter}
        onChange={(event) => setFilter(event.target.value)}
      />
      <div className="border-line max-h-40 overflow-auto rounded border px-2 py-1">
        {found.slice(0, shownAtOnce).map((secret) => {
          const isPicked = picked.some(({ id }) => id === secret.id)
          return (
            <CheckField
              key={secret.id}
              label={<span className="font-mono text-s break-all">{secret.name}</span>}
              checked={isPicked}
              disabled={isFull && !isPicked}
              onChange={() => onPick(isPicked ? picked.filter(({ id }) => id !== secret.id) : [...picked, secret])}
            />
          )
        })}
        {found.length > shownAtOnce && (
          <p className="hint">{plural(found.length - shownAtOnce, 'more name')}: filter.</p>
        )}
        {found.length === 0 && <p className="hint">No name matches.</p>}
      </div>
      {isFull && <p className="hint">A share made here has {maxPicked} secrets at most.</p>}
    </fieldset>
  )
}
