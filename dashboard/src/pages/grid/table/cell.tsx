// biome-ignore-all lint/a11y/useSemanticElements: rows are virtual, which the elements of a table do not allow
import { memo, type ReactNode } from 'react'
import { Icon } from '../../../parts/icon.tsx'
import { Menu } from '../../../parts/menu.tsx'
import { plural } from '../../../parts/plural.ts'
import { relativeTime } from '../../../parts/time.tsx'
import { findReference, type GridEnvironment, type GridRow } from '../cells.ts'
import { InlineEditor } from '../edit/inline-editor.tsx'
import { canEdit, type GridActions, type GridView, placeId } from '../grid-state.ts'
import { cellKey } from '../reveal.ts'
import { type CellView, cellEdits, viewCell } from './cell-view.ts'
import { ReferenceChip } from './reference-chip.tsx'

type CellProps = {
  readonly row: GridRow
  readonly environment: GridEnvironment
  readonly column: number
  readonly isActive: boolean
  readonly isHovered: boolean
  readonly view: GridView
  readonly actions: GridActions
}

/** One value: hidden until it is revealed, and edited in place. */
export const Cell = memo(function Cell({ row, environment, column, isActive, isHovered, view, actions }: CellProps) {
  const place = { rowId: row.id, environmentId: environment.id }
  const key = cellKey(row.id, environment.id)
  const cell = row.cells.get(environment.id)
  const look = viewCell(cell, cellEdits(view.edits, row.id, environment.id), view.shown.get(key))
  const conflict = view.conflicts.get(key)
  const { editing } = view
  const isEditing = editing?.secretId === row.id && editing.environmentId === environment.id
  const state = conflict ? 'grid-cell conflict' : look.isEdited ? 'grid-cell edited' : 'grid-cell'
  return (
    <div
      role="gridcell"
      id={placeId(place)}
      className={state}
      aria-colindex={column}
      aria-readonly={canEdit(view, environment) ? undefined : true}
      aria-busy={view.busy.has(key) || undefined}
      tabIndex={isActive && !isEditing ? 0 : -1}
      onFocus={() => actions.activate(place)}
      onDoubleClick={() => !isEditing && actions.edit(row, environment.id)}
    >
      {isEditing ? (
        <InlineEditor
          editing={editing}
          label={`Value of ${row.name} in ${environment.name}`}
          names={{
            rows: [...view.index.rowsByName.values()],
            environments: view.index.environments,
            own: { name: row.name, environmentId: environment.id },
          }}
          actions={actions}
        />
      ) : (
        <>
          <Content look={look} environment={environment} view={view} actions={actions} isActive={isActive} />
          {conflict && (
            <small>
              {conflict.changedAt
                ? `changed ${relativeTime(Date.parse(conflict.changedAt), Date.now())}`
                : 'removed meanwhile'}
            </small>
          )}
          {(isActive || isHovered) && (
            <CellButtons row={row} environment={environment} look={look} view={view} actions={actions} />
          )}
        </>
      )}
    </div>
  )
})

type ContentProps = {
  readonly look: CellView
  readonly environment: GridEnvironment
  readonly isActive: boolean
  readonly view: GridView
  readonly actions: GridActions
}

function Content({ look, environment, isActive, view, actions }: ContentProps): ReactNode {
  const { state, text, isPersonal, references } = look
  const own = isPersonal ? 'own' : ''
  const ownNote = isPersonal && <span className="sr-only">, your own value</span>
  if (state === 'missing') return <i className="missing">missing</i>
  if (state === 'removed') return <i className="removed">removed</i>
  if (state === 'empty') {
    return (
      <i className={`empty ${own}`}>
        empty
        {ownNote}
      </i>
    )
  }
  const found = references.map((name) => ({ name, reference: findReference(name, environment.id, view.index) }))
  const broken = found.find(({ reference }) => reference.kind === 'unresolved')
  if (state === 'hidden' && broken) return <i className="unresolved">{`cannot resolve \${${broken.name}}`}</i>
  if (state === 'shown') {
    const lines = text.split('\n')
    return (
      <>
        <i className={own} title={isPersonal ? 'Your own value' : undefined}>
          {lines[0]}
          {ownNote}
        </i>
        {lines.length > 1 && <small>{plural(lines.length, 'line')}</small>}
      </>
    )
  }
  return (
    <>
      {found.slice(0, 2).map(({ name, reference }) => (
        <ReferenceChip key={name} name={name} reference={reference} isReachable={isActive} actions={actions} />
      ))}
      {found.length > 2 && <small>{`+${found.length - 2}`}</small>}
      <span className={`dots ${own}`} title={isPersonal ? 'Your own value' : undefined} aria-hidden="true">
        {found.length > 0 ? '••••' : '••••••••'}
      </span>
      <span className="sr-only">hidden{ownNote}</span>
    </>
  )
}

type ButtonsProps = Omit<CellProps, 'column' | 'isActive' | 'isHovered'> & { readonly look: CellView }

/** For the mouse; by keyboard they follow the cell, and every one of them has a key. */
function CellButtons({ row, environment, look, view, actions }: ButtonsProps) {
  const { id } = environment
  const hasText = look.state === 'hidden' || look.state === 'shown'
  const isEditable = canEdit(view, environment)
  const isRemovable = look.state !== 'missing' && look.state !== 'removed' && (view.canWriteIn(id) || look.isPersonal)
  const history = () => actions.open({ kind: 'history', row, environmentId: id })
  if (look.state === 'missing' && !isEditable) return null
  return (
    <span className={look.state === 'shown' ? 'grid-acts beside' : 'grid-acts'}>
      {hasText && (
        <>
          <button type="button" onClick={() => actions.reveal(row, id)}>
            {look.state === 'shown' ? 'Hide' : 'Reveal'}
          </button>
          <button type="button" onClick={() => actions.copy(row, id)}>
            Copy
          </button>
        </>
      )}
      {isEditable && (
        <button type="button" className={hasText ? 'wide-only' : ''} onClick={() => actions.edit(row, id)}>
          {look.state === 'missing' ? 'Add' : 'Edit'}
        </button>
      )}
      <Menu
        className=""
        label={`More for ${row.name} in ${environment.name}`}
        trigger={<Icon name="more" />}
        groups={[
          [
            ...(isEditable ? [{ text: 'Value, note and reminder…', onSelect: () => actions.editAside(row, id) }] : []),
            ...(row.cells.has(id) ? [{ text: 'History', onSelect: history }] : []),
          ],
          isRemovable ? [{ text: 'Remove value', kind: 'danger', onSelect: () => actions.remove(row, id) }] : [],
        ]}
      />
    </span>
  )
}
