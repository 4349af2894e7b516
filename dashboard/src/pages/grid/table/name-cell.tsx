// biome-ignore-all lint/a11y/useSemanticElements: rows are virtual, which the elements of a table do not allow
import { memo } from 'react'
import { Icon } from '../../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../../parts/menu.tsx'
import { type GridEnvironment, type GridRow, nextReminder } from '../cells.ts'
import { RenameEditor } from '../edit/rename-editor.tsx'
import { type GridActions, type GridView, placeId } from '../grid-state.ts'

type NameProps = {
  readonly row: GridRow
  readonly environments: readonly GridEnvironment[]
  readonly isActive: boolean
  readonly isHovered: boolean
  readonly view: GridView
  readonly actions: GridActions
}

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
/** Reminders further away are shown in the side editor only. */
const soonMs = 14 * 86_400_000

export const NameCell = memo(function NameCell({ row, environments, isActive, isHovered, view, actions }: NameProps) {
  const place = { rowId: row.id }
  const newName = view.edits.names.get(row.id)
  const isRenaming = view.renaming === row.id
  const isEdited = newName !== undefined || row.isFresh
  return (
    <div
      role="rowheader"
      id={placeId(place)}
      className={isEdited ? 'grid-cell name edited' : 'grid-cell name'}
      aria-colindex={1}
      tabIndex={isActive && !isRenaming ? 0 : -1}
      onFocus={() => actions.activate(place)}
      onDoubleClick={() => !isRenaming && actions.startRename(row)}
    >
      {isRenaming ? (
        <RenameEditor row={row} name={newName ?? row.name} view={view} actions={actions} />
      ) : (
        <>
          <i title={newName === undefined ? undefined : `Now ${row.name}`}>{newName ?? row.name}</i>
          <Due row={row} environments={environments} />
          {(isActive || isHovered) && <RowMenu row={row} view={view} actions={actions} />}
        </>
      )}
    </div>
  )
})

function Due({ row, environments }: Pick<NameProps, 'row' | 'environments'>) {
  const next = nextReminder(row, environments)
  if (!next) return null
  const inMs = Date.parse(next.at) - Date.now()
  if (inMs > soonMs) return null
  return (
    <small className={inMs <= 0 ? 'due' : ''} title={`Reminder in ${next.environment}`}>
      rotate {day.format(new Date(next.at))}
    </small>
  )
}

function RowMenu({ row, view, actions }: Pick<NameProps, 'row' | 'view' | 'actions'>) {
  const history: MenuEntry = {
    text: 'History',
    onSelect: () => actions.open({ kind: 'history', row, environmentId: undefined }),
  }
  const rename: MenuEntry = { text: 'Rename', onSelect: () => actions.startRename(row) }
  const remove: MenuEntry = {
    text: row.isFresh ? 'Take back' : 'Delete everywhere…',
    kind: 'danger',
    onSelect: () => actions.removeSecret(row),
  }
  const mayChange = view.canChangeSecrets || row.isFresh
  const copy: MenuEntry = { text: 'Copy name', onSelect: () => actions.copyName(row) }
  return (
    <span className="grid-acts">
      <Menu
        className=""
        label={`Actions for ${row.name}`}
        trigger={<Icon name="more" />}
        groups={[[copy, ...(row.isFresh ? [] : [history]), ...(mayChange ? [rename] : [])], mayChange ? [remove] : []]}
      />
    </span>
  )
}
