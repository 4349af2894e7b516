/** State of the grid and everything that can be done in it. Overlays and tables only show and call. */
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'react'
import type { CellValues } from '../../api/cell-values.ts'
import { readCell, readColumn } from '../../api/secret.ts'
import { say } from '../../parts/toast.tsx'
import { effective, type GridEnvironment, type GridRow } from './cells.ts'
import { findConflicts } from './edit/batch.ts'
import { type Edits, type FreshSecret, noEdits, reduceEdits, slotKey, type ValueEdit, withEdits } from './edit/edits.ts'
import { canEdit, type Editing, type GridActions, type GridView, type Overlay, type Place } from './grid-state.ts'
import { cellKey, type Reveals, useReveals } from './reveal.ts'

export type GridOptions = {
  readonly ws: string
  readonly prj: string
  /** As stored. */
  readonly rows: readonly GridRow[]
  readonly environments: readonly GridEnvironment[]
  readonly shownColumns: readonly GridEnvironment[]
  readonly canWriteIn: (environmentId: string) => boolean
  readonly canChangeSecrets: boolean
  /** Asked before a reference leads to a row that the filter hides. */
  readonly showAll: () => void
}

export type Grid = ReturnType<typeof useGrid>

export function useGrid(options: GridOptions) {
  const { ws, prj, rows: stored, environments, canWriteIn, canChangeSecrets } = options
  const [edits, dispatch] = useReducer(reduceEdits, noEdits)
  const reveals = useReveals()
  const [active, setActive] = useState<Place>({ rowId: '' })
  const [editing, setEditing] = useState<Editing>()
  const [renaming, setRenaming] = useState<string>()
  const [overlay, setOverlay] = useState<Overlay>()
  const [busy, setBusy] = useState<ReadonlySet<string>>(new Set())
  const wantsFocus = useRef(false)
  /** Counts edits that were asked for: only the newest opens once its value is read. */
  const editTurn = useRef(0)

  const rows = useMemo(() => withEdits(stored, edits.now), [stored, edits.now])
  const storedById = useMemo(() => new Map(stored.map((row) => [row.id, row])), [stored])
  const index = useMemo(
    () => ({ rowsByName: new Map(stored.map((row) => [row.name, row])), environments }),
    [stored, environments],
  )
  const conflicts = useMemo(() => findConflicts(edits.now, storedById), [edits.now, storedById])
  const view = useMemo<GridView>(() => {
    const byCell = new Map(
      conflicts.map((conflict) => [cellKey(conflict.edit.secretId, conflict.edit.environmentId), conflict]),
    )
    const shown = reveals.shown
    return { edits: edits.now, shown, busy, conflicts: byCell, editing, renaming, index, canWriteIn, canChangeSecrets }
  }, [edits.now, reveals.shown, busy, conflicts, editing, renaming, index, canWriteIn, canChangeSecrets])

  /** Rows by id, with those of new secrets. */
  const rowsById = useMemo(() => new Map(rows.map((row) => [row.id, row])), [rows])
  const latest = useRef({ options, view, reveals, rowsById, active })
  useLayoutEffect(() => {
    latest.current = { options, view, reveals, rowsById, active }
  })

  const tools = useMemo(() => {
    function focus(place: Place): void {
      wantsFocus.current = true
      setActive({ ...place })
    }

    /** Undefined, with the reason said, if the value cannot be read. */
    async function load(row: GridRow, environmentId: string): Promise<CellValues | undefined> {
      const key = cellKey(row.id, environmentId)
      setBusy((before) => new Set(before).add(key))
      try {
        return await readCell(ws, prj, row.id, environmentId)
      } catch (error) {
        say(error, 'bad')
        return undefined
      } finally {
        setBusy((before) => new Set([...before].filter((one) => one !== key)))
      }
    }

    const editOf = (row: GridRow, environmentId: string, isPersonal: boolean): ValueEdit | undefined =>
      latest.current.view.edits.values.get(slotKey({ secretId: row.id, environmentId, isPersonal }))

    /** The edit of the value that is seen in the cell: one's own covers the shared one. */
    function seenEdit(row: GridRow, environmentId: string): ValueEdit | undefined {
      const own = editOf(row, environmentId, true)
      const hasOwn = own ? own.value !== null : row.cells.get(environmentId)?.personal !== undefined
      return hasOwn ? own : editOf(row, environmentId, false)
    }

    /** Whose value an edit in the cell changes: the one that is seen there. */
    function isPersonalAt(row: GridRow, environmentId: string): boolean {
      const edit = editOf(row, environmentId, true)
      const hasOwn = edit ? edit.value !== null : row.cells.get(environmentId)?.personal !== undefined
      return hasOwn || !latest.current.view.canWriteIn(environmentId)
    }

    function keep({ secretId, environmentId, isPersonal, original, baseVersion }: Editing, value: string | null): void {
      const row = latest.current.rowsById.get(secretId)
      if (!row) return
      const edit = { secretId, environmentId, isPersonal, name: row.name, baseVersion, value }
      dispatch({ type: 'set', edit, original })
      const key = cellKey(secretId, environmentId)
      // The new text is seen for a while, as a revealed one is.
      if (value !== null) reveals.show(new Map([[key, latest.current.reveals.shown.get(key) ?? {}]]))
    }

    function draftFrom(
      row: GridRow,
      environmentId: string,
      isPersonal: boolean,
      values: CellValues | undefined,
    ): Editing {
      const kind = isPersonal ? 'personal' : 'shared'
      const edit = editOf(row, environmentId, isPersonal)
      const original = values?.[kind]?.text
      // A first value of one's own starts from the one that it replaces.
      const text = edit ? (edit.value ?? '') : (original ?? values?.shared?.text ?? '')
      const baseVersion = values?.[kind]?.version ?? row.cells.get(environmentId)?.[kind]?.version ?? 0
      return { secretId: row.id, environmentId, isPersonal, text, original, baseVersion }
    }

    /** The text to start an edit with, unless the value must be read first. */
    function knownDraft(row: GridRow, environmentId: string, isPersonal: boolean): Editing | undefined {
      const shown = latest.current.view.shown.get(cellKey(row.id, environmentId))
      const isKnown =
        effective(row.cells.get(environmentId)) === undefined ||
        editOf(row, environmentId, isPersonal) !== undefined ||
        shown?.[isPersonal ? 'personal' : 'shared'] !== undefined
      return isKnown ? draftFrom(row, environmentId, isPersonal, shown) : undefined
    }

    /** Reads the value if it is not on the screen, which is recorded. */
    async function draft(row: GridRow, environmentId: string, isPersonal: boolean): Promise<Editing | undefined> {
      const known = knownDraft(row, environmentId, isPersonal)
      if (known) return known
      const values = await load(row, environmentId)
      return values && draftFrom(row, environmentId, isPersonal, values)
    }

    async function startEdit(row: GridRow, environmentId: string, isAside: boolean): Promise<void> {
      const { options, view } = latest.current
      const environment = options.environments.find(({ id }) => id === environmentId)
      if (!environment || !canEdit(view, environment)) return
      const turn = ++editTurn.current
      const isPersonal = isPersonalAt(row, environmentId)
      // A known value opens at once: the next key is for the text.
      const next = knownDraft(row, environmentId, isPersonal) ?? (await draft(row, environmentId, isPersonal))
      if (!next || turn !== editTurn.current) return
      actions.activate({ rowId: row.id, environmentId })
      if (isAside || /[\r\n]/.test(next.text)) setOverlay({ kind: 'value', editing: next })
      else setEditing(next)
    }

    function addSecret(secret: FreshSecret, values: readonly ValueEdit[]): void {
      dispatch({ type: 'add', secret, values })
      reveals.show(new Map(values.map(({ environmentId }) => [cellKey(secret.id, environmentId), {}])))
      focus({ rowId: secret.id })
    }

    /** A new secret that had the focus is another row once it is saved: the one with the id of the service. */
    function followSaved({ fresh }: Edits): void {
      const { active, options } = latest.current
      const name = fresh.get(active.rowId)?.name
      const row = options.rows.find((one) => one.name === name)
      if (row) focus({ ...active, rowId: row.id })
    }

    const actions: GridActions = {
      activate: (place) =>
        setActive((before) =>
          before.rowId === place.rowId && before.environmentId === place.environmentId ? before : place,
        ),
      async reveal(row, environmentId) {
        const key = cellKey(row.id, environmentId)
        const { view, reveals } = latest.current
        const edit = seenEdit(row, environmentId)
        const shown = view.shown.get(key)
        if (shown && (edit ?? shown.personal ?? shown.shared)) return reveals.hide([key])
        if (edit) return reveals.show(new Map([[key, {}]]))
        const cell = effective(row.cells.get(environmentId))
        if (!cell || cell.isEmpty) return
        const values = await load(row, environmentId)
        if (values) latest.current.reveals.show(new Map([[key, values]]))
      },
      async copy(row, environmentId) {
        const edit = seenEdit(row, environmentId)
        if (!edit && !effective(row.cells.get(environmentId))) return
        const values = typeof edit?.value === 'string' ? undefined : await load(row, environmentId)
        const own = editOf(row, environmentId, true)?.value === null ? undefined : values?.personal
        const text = edit?.value ?? own?.text ?? values?.shared?.text
        if (text !== undefined) await writeClipboard(text, `Copied the value of ${row.name}.`)
      },
      copyName: (row) => void writeClipboard(row.name, `Copied ${row.name}.`),
      edit: (row, environmentId) => startEdit(row, environmentId, false),
      editAside: (row, environmentId) => startEdit(row, environmentId, true),
      cancelEdit: () => void editTurn.current++,
      endEdit(text, move) {
        const ended = latest.current.view.editing
        setEditing(undefined)
        if (!ended) return
        // Leaving a missing value without typing must not create an empty one.
        const isNothing = text === '' && ended.original === undefined && ended.text === ''
        if (text !== undefined && !isNothing && text !== ended.text) keep(ended, text)
        if (move === undefined) return
        const columns = latest.current.options.shownColumns
        const next = columns[columns.findIndex(({ id }) => id === ended.environmentId) + move]
        focus({ rowId: ended.secretId, environmentId: next?.id ?? ended.environmentId })
      },
      openEditor(text) {
        const { editing } = latest.current.view
        setEditing(undefined)
        if (editing) setOverlay({ kind: 'value', editing: { ...editing, text }, isTyped: true })
      },
      remove(row, environmentId) {
        const isPersonal = isPersonalAt(row, environmentId)
        const baseVersion = row.cells.get(environmentId)?.[isPersonal ? 'personal' : 'shared']?.version ?? 0
        keep({ secretId: row.id, environmentId, isPersonal, text: '', baseVersion }, null)
      },
      removeSecret(row) {
        if (row.isFresh) dispatch({ type: 'drop-secret', secretId: row.id })
        else if (latest.current.view.canChangeSecrets) setOverlay({ kind: 'trash', row })
      },
      startRename(row) {
        if (latest.current.view.canChangeSecrets || row.isFresh) setRenaming(row.id)
      },
      endRename(row, to, move) {
        setRenaming(undefined)
        if (to !== undefined) dispatch({ type: 'rename', row, to })
        if (move === 0) focus({ rowId: row.id })
      },
      goTo({ secretId, environmentId }) {
        latest.current.options.showAll()
        focus({ rowId: secretId, environmentId })
      },
      open: setOverlay,
    }
    return { actions, focus, keep, draft, addSecret, followSaved }
  }, [ws, prj, reveals.show])

  useEffect(() => dropStale(reveals, storedById), [reveals, storedById])

  async function revealColumn(environment: GridEnvironment): Promise<void> {
    const values = await readColumn(ws, prj, environment.id)
    reveals.show(new Map([...values].map(([secretId, cell]) => [cellKey(secretId, environment.id), cell])))
  }

  return {
    ...tools,
    ...{ edits, dispatch, reveals, rows, rowsById, storedById, index, conflicts, view },
    ...{ active, overlay, setOverlay, wantsFocus, revealColumn },
  }
}

/** A value that somebody has changed meanwhile is no longer shown as the stored one. */
function dropStale({ shown, hide }: Reveals, rows: ReadonlyMap<string, GridRow>): void {
  const stale = [...shown].flatMap(([key, values]) => {
    const [secretId = '', environmentId = ''] = key.split(' ')
    const cell = rows.get(secretId)?.cells.get(environmentId)
    const isStale = (['shared', 'personal'] as const).some((kind) => {
      const version = values[kind]?.version
      return version !== undefined && version < (cell?.[kind]?.version ?? Number.POSITIVE_INFINITY)
    })
    return isStale ? [key] : []
  })
  if (stale.length > 0) hide(stale)
}

async function writeClipboard(text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say(done)
  } catch {
    say('The browser does not allow copying here.', 'bad')
  }
}
