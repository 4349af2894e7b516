import { ValueText } from '../../../parts/value-text.tsx'
import type { GridEnvironment } from '../cells.ts'
import { cellKey } from '../reveal.ts'
import type { Grid } from '../use-grid.ts'
import { cellEdits, viewCell } from './cell-view.ts'

type BarProps = { readonly grid: Grid; readonly environments: readonly GridEnvironment[] }

/** Below the table, the whole of a revealed value that its cell is too small for. */
export function ValueBar({ grid: { active, rows, view }, environments }: BarProps) {
  const row = rows.find(({ id }) => id === active.rowId)
  const environment = environments.find(({ id }) => id === active.environmentId)
  const shown = view.shown.get(cellKey(active.rowId, active.environmentId ?? ''))
  if (!row || !environment || !shown || view.editing) return null
  const { state, text } = viewCell(row.cells.get(environment.id), cellEdits(view.edits, row.id, environment.id), shown)
  if (state !== 'shown' || fitsCell(text)) return null
  return (
    <div className="value-bar">
      <p className="text-soft">
        {row.name} in {environment.name}
      </p>
      <ValueText value={text} label={`The whole value of ${row.name} in ${environment.name}`} />
    </div>
  )
}

const cellLength = 16

const fitsCell = (text: string) =>
  text.length <= cellLength && !text.includes('\n') && !matchMedia('(max-width: 720px)').matches
