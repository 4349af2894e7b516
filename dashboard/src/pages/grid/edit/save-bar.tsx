import { Button } from '../../../parts/button.tsx'
import { plural } from '../../../parts/plural.ts'
import { say } from '../../../parts/toast.tsx'
import type { GridEnvironment } from '../cells.ts'
import type { Grid } from '../use-grid.ts'
import { summarise } from './batch.ts'
import { hasEdits } from './edits.ts'

type BarProps = {
  readonly grid: Grid
  readonly environments: readonly GridEnvironment[]
  readonly onReview: () => void
}

/** Counts unsaved changes, and leads to the review. */
export function SaveBar({ grid, environments, onReview }: BarProps) {
  const { edits, storedById, conflicts, dispatch } = grid
  if (!hasEdits(edits.now)) return null
  const { count, touched } = summarise(edits.now, storedById, environments)
  const names = touched.map(({ environment }) => environment.name)

  function discard(): void {
    dispatch({ type: 'discard' })
    say(`Discarded ${plural(count, 'change')}. Ctrl+Z brings them back.`)
  }

  return (
    <div className="save-bar">
      <p role="status">
        <b>{plural(count, 'change')}</b>
        {names.length > 0 && ` in ${listNames(names)}`}
        {conflicts.length > 0 && <span className="text-warn">{` · ${plural(conflicts.length, 'conflict')}`}</span>}
      </p>
      <Button onClick={discard}>Discard</Button>
      <Button kind="primary" onClick={onReview}>
        Review and save <kbd>{isMac() ? '⌘S' : 'Ctrl S'}</kbd>
      </Button>
    </div>
  )
}

export function listNames(names: readonly string[]): string {
  if (names.length > 3) return plural(names.length, 'environment')
  return new Intl.ListFormat('en', { type: 'conjunction' }).format(names)
}

const isMac = () => navigator.userAgent.includes('Mac')
