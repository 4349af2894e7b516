// biome-ignore-all lint/a11y/useSemanticElements: rows are virtual, which the elements of a table do not allow
// biome-ignore-all lint/a11y/useFocusableInteractive: the cell or button inside takes the focus
/** Names and values of all environments. Only the rows in sight are in the page; one cell of the grid is a tab stop. */
import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual'
import {
  type CSSProperties,
  type KeyboardEvent,
  memo,
  type RefObject,
  useCallback,
  useLayoutEffect,
  useRef,
  useState,
} from 'react'
import type { GridEnvironment, GridRow } from '../cells.ts'
import type { Columns } from '../filter/columns.ts'
import { type GridActions, type GridView, headRow, type Place, placeId } from '../grid-state.ts'
import { Cell } from './cell.tsx'
import { ColumnHead } from './column-head.tsx'
import { NameCell } from './name-cell.tsx'
import './grid.css'

type TableProps = {
  readonly label: string
  readonly rows: readonly GridRow[]
  readonly columns: Columns
  readonly active: Place
  /** Set to move the focus to the active cell after the next render. */
  readonly wantsFocus: RefObject<boolean>
  readonly view: GridView
  readonly actions: GridActions
  readonly onKeyDown: (event: KeyboardEvent<HTMLElement>, pageRows: number) => void
}

const rowHeight = 36

export function GridTable({ label, rows, columns, active, wantsFocus, view, actions, onKeyDown }: TableProps) {
  const frame = useRef<HTMLDivElement>(null)
  // Found by what the pointer is over: a cell gets no leave event if what was under the pointer has been replaced.
  const [hovered, setHovered] = useState('')
  const { shown } = columns
  const activeIndex = rows.findIndex(({ id }) => id === active.rowId)
  // The active row stays in the page when it is scrolled away: its removal would lose the focus.
  const rangeExtractor = useCallback(
    (range: Range) => {
      const indexes = defaultRangeExtractor(range)
      if (activeIndex < 0 || indexes.includes(activeIndex)) return indexes
      return [...indexes, activeIndex].toSorted((one, other) => one - other)
    },
    [activeIndex],
  )
  // A new function would make the virtualizer measure all rows again at every render.
  const getItemKey = useCallback((index: number) => rows[index]?.id ?? index, [rows])
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    getItemKey,
    overscan: 6,
    scrollMargin: rowHeight,
    rangeExtractor,
  })

  useLayoutEffect(() => {
    if (!wantsFocus.current) return
    const cell = document.getElementById(placeId(active))
    if (!cell) return
    wantsFocus.current = false
    // Before the next key, but after a dialog that closes with this render: it gives the focus back in a microtask.
    queueMicrotask(() => {
      cell.focus({ preventScroll: true })
      cell.scrollIntoView({ block: 'nearest', inline: 'nearest' })
    })
  })

  const hasActive = activeIndex >= 0 || active.rowId === headRow
  const style: CSSProperties & Record<'--columns', number> = { '--columns': shown.length }
  return (
    <div
      ref={frame}
      className={rows.length > 0 ? 'sheet' : 'sheet none'}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={shown.length + 1}
      style={style}
      onPointerOver={(event) => setHovered(cellIdAt(event.target))}
      onPointerLeave={() => setHovered('')}
      onKeyDown={(event) =>
        onKeyDown(event, Math.max(1, Math.floor((frame.current?.clientHeight ?? 0) / rowHeight) - 2))
      }
    >
      <div className="grid-head" role="rowgroup">
        <div className="grid-row" role="row" aria-rowindex={1}>
          <ColumnHead columns={columns} active={active} view={view} actions={actions} />
        </div>
      </div>
      <div className="grid-body" role="rowgroup" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, key, start }) => {
          const row = rows[index]
          if (!row) return null
          const isActive = hasActive ? index === activeIndex : index === 0
          return (
            <Row
              key={key}
              row={row}
              index={index}
              top={start - rowHeight}
              environments={shown}
              hovered={hovered.startsWith(placeId({ rowId: row.id, environmentId: '' })) ? hovered : ''}
              activeColumn={isActive ? (active.environmentId ?? 'name') : undefined}
              view={view}
              actions={actions}
            />
          )
        })}
      </div>
    </div>
  )
}

const cellIdAt = (target: EventTarget) => (target instanceof Element && target.closest('.grid-cell')?.id) || ''

type RowProps = {
  readonly row: GridRow
  readonly index: number
  readonly top: number
  readonly environments: readonly GridEnvironment[]
  /** The id of the cell under the pointer, if it is in this row. */
  readonly hovered: string
  /** The id of an environment, or `name`. */
  readonly activeColumn: string | undefined
  readonly view: GridView
  readonly actions: GridActions
}

const Row = memo(function Row({ row, index, top, environments, hovered, activeColumn, view, actions }: RowProps) {
  // A column that was hidden meanwhile leaves the tab stop to the name.
  const isNameActive = activeColumn !== undefined && !environments.some(({ id }) => id === activeColumn)
  return (
    <div className="grid-row" role="row" aria-rowindex={index + 2} style={{ transform: `translateY(${top}px)` }}>
      <NameCell
        row={row}
        environments={environments}
        isActive={isNameActive}
        isHovered={hovered === placeId({ rowId: row.id })}
        view={view}
        actions={actions}
      />
      {environments.map((environment, column) => (
        <Cell
          key={environment.id}
          row={row}
          environment={environment}
          column={column + 2}
          isActive={environment.id === activeColumn}
          isHovered={hovered === placeId({ rowId: row.id, environmentId: environment.id })}
          view={view}
          actions={actions}
        />
      ))}
    </div>
  )
})
