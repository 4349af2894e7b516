import { useQuery } from '@tanstack/react-query'
import { lastVersionQuery } from '../../../api/secret.ts'
import { Button } from '../../../parts/button.tsx'
import { Time } from '../../../parts/time.tsx'
import type { GridEnvironment } from '../cells.ts'
import type { Grid } from '../use-grid.ts'
import type { Conflict } from './batch.ts'
import { slotKey } from './edits.ts'
import './review.css'

type ListProps = {
  readonly ws: string
  readonly prj: string
  readonly environments: readonly GridEnvironment[]
  readonly grid: Grid
}

/** Changes that somebody else has overtaken. Each is settled by hand: nothing is overwritten unseen. */
export function ConflictList({ ws, prj, environments, grid }: ListProps) {
  const { conflicts } = grid
  if (conflicts.length === 0) return null
  return (
    <section className="review conflicts" aria-label="Conflicts">
      <h3>Changed by others meanwhile</h3>
      <ul>
        {conflicts.map((conflict) => {
          const environment = environments.find(({ id }) => id === conflict.edit.environmentId)
          const place = environment?.name ?? 'an environment that is gone'
          return (
            <ConflictLine
              key={slotKey(conflict.edit)}
              ws={ws}
              prj={prj}
              conflict={conflict}
              place={place}
              grid={grid}
            />
          )
        })}
      </ul>
    </section>
  )
}

type LineProps = {
  readonly ws: string
  readonly prj: string
  readonly conflict: Conflict
  readonly place: string
  readonly grid: Grid
}

function ConflictLine({ ws, prj, conflict, place, grid: { dispatch } }: LineProps) {
  const { edit, kind, name, version } = conflict
  const keepMine = () =>
    dispatch(kind === 'gone' ? { type: 'revive', slot: edit } : { type: 'rebase', slot: edit, version })
  return (
    <li>
      <p>
        <code>{name}</code> in {place} <Author ws={ws} prj={prj} conflict={conflict} />
      </p>
      <Button onClick={() => dispatch({ type: 'drop', slot: edit })}>Take theirs</Button>
      <Button onClick={keepMine}>Keep mine</Button>
    </li>
  )
}

/** Who did it and when, from the history of the value. */
function Author({ ws, prj, conflict }: { readonly ws: string; readonly prj: string; readonly conflict: Conflict }) {
  const { edit, kind, name, version, changedAt } = conflict
  const hasHistory = kind !== 'gone' && !edit.isPersonal
  const { data } = useQuery({
    ...lastVersionQuery(ws, prj, name, edit.environmentId, version),
    enabled: hasHistory,
  })
  if (kind === 'gone') return 'was deleted with its secret.'
  const at = data?.createdAt ?? changedAt
  return (
    <>
      was {kind}
      {data && ` by ${data.createdBy}`}
      {at !== undefined && (
        <>
          {' '}
          <Time at={at} />
        </>
      )}
      .
    </>
  )
}
