import { type KeyboardEvent, useLayoutEffect, useRef } from 'react'
import { hasLetterKeys, isCovered, isTyping } from '../../parts/letter-keys.ts'
import type { GridEnvironment, GridRow } from './cells.ts'
import { headRow, type Place } from './grid-state.ts'
import type { Grid } from './use-grid.ts'

type KeyOptions = {
  readonly grid: Grid
  readonly rows: readonly GridRow[]
  readonly columns: readonly GridEnvironment[]
  readonly focusFilter: () => void
  readonly createSecret: () => void
  readonly review: () => void
  readonly showKeys: () => void
}

/** Keys that work anywhere on the page, unless a dialog is open. */
export function usePageKeys({ grid, focusFilter, createSecret, review, showKeys }: KeyOptions): void {
  const latest = useRef<(event: globalThis.KeyboardEvent) => void>(undefined)
  // With the render that shows the grid, so that no key is lost after it.
  useLayoutEffect(() => {
    latest.current = (event) => {
      if (event.defaultPrevented || isCovered()) return
      const isCommand = event.ctrlKey || event.metaKey
      if (isCommand && !event.altKey && event.key.toLowerCase() === 's') {
        event.preventDefault()
        review()
        return
      }
      if (isTyping(event.target)) return
      // The text of an edit whose value is still being read must not be taken for commands.
      if (grid.view.busy.size > 0 && !isCommand) return
      const letter = hasLetterKeys() && !isCommand && !event.altKey ? event.key : ''
      if (letter === 'z' || (isCommand && !event.shiftKey && event.key.toLowerCase() === 'z')) {
        grid.dispatch({ type: 'undo' })
      } else if (letter === '/') focusFilter()
      else if (letter === 'n') createSecret()
      else if (letter === '?') showKeys()
      else return
      event.preventDefault()
    }
  })
  useLayoutEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => latest.current?.(event)
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
}

/** Keys of the focused cell. */
export function pressInGrid(
  event: KeyboardEvent<HTMLElement>,
  pageRows: number,
  { grid, rows, columns }: Pick<KeyOptions, 'grid' | 'rows' | 'columns'>,
): void {
  if (event.defaultPrevented || isCovered() || isTyping(event.target)) return
  const next = moveTo(event, pageRows, grid.active, rows, columns)
  if (next) {
    event.preventDefault()
    grid.focus(next)
    return
  }
  const row = rows.find(({ id }) => id === grid.active.rowId)
  if (!row || !(event.target instanceof HTMLElement) || !event.currentTarget.contains(event.target)) return
  // Buttons inside of a cell have Enter and Space for themselves.
  if ((event.key === 'Enter' || event.key === ' ') && event.target.closest('button, a')) return
  if (grid.view.busy.size > 0) {
    if (event.key === 'Escape') grid.actions.cancelEdit()
    return
  }
  if (pressOnCell(event, grid, row, grid.active.environmentId)) event.preventDefault()
}

function pressOnCell(
  event: KeyboardEvent<HTMLElement>,
  { actions }: Grid,
  row: GridRow,
  environmentId: string | undefined,
): boolean {
  const isCommand = event.ctrlKey || event.metaKey || event.altKey
  if (isCommand) return false
  const letter = hasLetterKeys() && event.key.length === 1 ? event.key : ''
  if (letter === 'C') actions.copyName(row)
  else if (letter === 'h') actions.open({ kind: 'history', row, environmentId })
  else if (environmentId === undefined) {
    if (event.key === 'Enter' || event.key === 'F2') actions.startRename(row)
    else if (event.key === 'Delete') actions.removeSecret(row)
    else return false
  } else if (event.key === 'Enter' || event.key === 'F2') actions.edit(row, environmentId)
  else if (event.key === ' ') actions.reveal(row, environmentId)
  else if (event.key === 'Delete') actions.remove(row, environmentId)
  else if (letter === 'c') actions.copy(row, environmentId)
  else if (letter === 'e') actions.editAside(row, environmentId)
  else return false
  return true
}

/** The cell that a key leads to. The row of titles is above the first one. */
export function moveTo(
  {
    key,
    ctrlKey,
    metaKey,
    altKey,
    shiftKey,
  }: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>,
  pageRows: number,
  active: Place,
  rows: readonly GridRow[],
  columns: readonly GridEnvironment[],
): Place | undefined {
  if (altKey || shiftKey || rows.length === 0) return undefined
  const isFar = ctrlKey || metaKey
  if (isFar && key !== 'Home' && key !== 'End') return undefined
  const places = [undefined, ...columns.map(({ id }) => id)]
  const last = rows.length - 1
  const from =
    active.rowId === headRow
      ? -1
      : Math.max(
          0,
          rows.findIndex(({ id }) => id === active.rowId),
        )
  const column = Math.max(0, places.indexOf(active.environmentId))
  const at = (row: number, column: number): Place => ({
    rowId: rows[Math.min(Math.max(row, -1), last)]?.id ?? headRow,
    environmentId: places[Math.min(Math.max(column, 0), places.length - 1)],
  })
  switch (key) {
    case 'ArrowDown':
      return at(from + 1, column)
    case 'ArrowUp':
      return at(from - 1, column)
    case 'ArrowLeft':
      return at(from, column - 1)
    case 'ArrowRight':
      return at(from, column + 1)
    case 'PageDown':
      return at(from + pageRows, column)
    case 'PageUp':
      return at(Math.max(0, from - pageRows), column)
    case 'Home':
      return isFar ? at(0, 0) : at(from, 0)
    case 'End':
      return isFar ? at(last, places.length - 1) : at(from, places.length - 1)
    default:
      return undefined
  }
}
