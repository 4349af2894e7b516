// biome-ignore-all lint/a11y/useSemanticElements: rows are virtual, which the elements of a table do not allow
// biome-ignore-all lint/a11y/useFocusableInteractive: the cell or button inside takes the focus
import { Icon } from '../../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../../parts/menu.tsx'
import type { GridEnvironment } from '../cells.ts'
import type { Columns } from '../filter/columns.ts'
import { type GridActions, type GridView, headRow, type Place, placeId } from '../grid-state.ts'

type HeadProps = {
  readonly columns: Columns
  readonly active: Place
  readonly view: GridView
  readonly actions: GridActions
}

/** Column titles. Each title is a menu: reveal the column, move it, hide it. */
export function ColumnHead({ columns, active, view, actions }: HeadProps) {
  const isHeadActive = active.rowId === headRow
  return (
    <>
      <div
        role="columnheader"
        id={placeId({ rowId: headRow })}
        className="grid-cell name"
        aria-colindex={1}
        tabIndex={isHeadActive && active.environmentId === undefined ? 0 : -1}
        onFocus={() => actions.activate({ rowId: headRow })}
      >
        Name
      </div>
      {columns.shown.map((environment, index) => (
        <div
          key={environment.id}
          role="columnheader"
          className="grid-cell"
          aria-colindex={index + 2}
          onFocus={() => actions.activate({ rowId: headRow, environmentId: environment.id })}
        >
          <Menu
            id={placeId({ rowId: headRow, environmentId: environment.id })}
            className="column-menu"
            tabIndex={isHeadActive && active.environmentId === environment.id ? 0 : -1}
            trigger={<Title name={environment.name} isLocked={!view.canWriteIn(environment.id)} />}
            groups={entriesOf(environment, index, columns, actions)}
          />
        </div>
      ))}
    </>
  )
}

function Title({ name, isLocked }: { readonly name: string; readonly isLocked: boolean }) {
  return (
    <>
      <span className="truncate">{name}</span>
      {isLocked && (
        <span className="flex" title="You can read, not write">
          <Icon name="lock" />
          <span className="sr-only">, you can read, not write</span>
        </span>
      )}
      <Icon name="chevron" />
    </>
  )
}

function entriesOf(
  environment: GridEnvironment,
  index: number,
  columns: Columns,
  actions: GridActions,
): readonly (readonly MenuEntry[])[] {
  const { id } = environment
  const reveal = { text: 'Reveal column…', onSelect: () => actions.open({ kind: 'reveal-column', environment }) }
  const left = { text: 'Move left', onSelect: () => columns.move(id, -1) }
  const right = { text: 'Move right', onSelect: () => columns.move(id, 1) }
  const hide = { text: 'Hide', onSelect: () => columns.toggle(id) }
  const isLast = index === columns.shown.length - 1
  return [
    [reveal],
    [...(index > 0 ? [left] : []), ...(isLast ? [] : [right]), ...(columns.shown.length > 1 ? [hide] : [])],
  ]
}
