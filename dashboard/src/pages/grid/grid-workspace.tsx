/** The grid with its toolbar, save bar and overlays. */
import { getRouteApi } from '@tanstack/react-router'
import { type ClipboardEvent, useDeferredValue, useEffect, useMemo, useRef } from 'react'
import { useProjectRights } from '../../api/use-rights.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { isTyping } from '../../parts/letter-keys.ts'
import { ProjectPage } from '../shell/project-page.tsx'
import { findEnvironment, type GridEnvironment, type GridRow } from './cells.ts'
import { hasEdits } from './edit/edits.ts'
import { SaveBar } from './edit/save-bar.tsx'
import { EmptyProject } from './empty-project.tsx'
import { useColumns } from './filter/columns.ts'
import { filterRows, isFiltering, readFilter } from './filter/filter.ts'
import { Toolbar, useFilterText, useSetSearch } from './filter/toolbar.tsx'
import { GridOverlays } from './grid-overlays.tsx'
import type { GridWorkspaceProps } from './grid-state.ts'
import { LeaveGuard } from './leave-guard.tsx'
import { NoVariables } from './no-variable.tsx'
import { GridTable } from './table/grid-table.tsx'
import { ValueBar } from './table/value-bar.tsx'
import { useGrid } from './use-grid.ts'
import { pressInGrid, usePageKeys } from './use-keys.ts'

const route = getRouteApi('/signed-in/$ws/$prj/')

const allRows = { q: undefined, missing: undefined, differs: undefined, show: undefined, since: undefined }

export function GridWorkspace(props: GridWorkspaceProps) {
  const { ws, prj, project, rows: stored, environments, error } = props
  const { canWrite, canWriteIn, writesWhole } = useProjectRights()
  const search = route.useSearch()
  const setSearch = useSetSearch()
  const [text, setText] = useFilterText(search.q ?? '')
  const columns = useColumns(project.id, environments)
  const filterInput = useRef<HTMLInputElement>(null)

  function showAll(): void {
    setText('')
    setSearch(allRows)
  }

  const grid = useGrid({
    ...{ ws, prj, rows: stored, environments, canWriteIn, showAll },
    shownColumns: columns.shown,
    canChangeSecrets: writesWhole,
  })
  const { actions, active, view, setOverlay } = grid

  const { missing, differs, show, since } = search
  const q = useDeferredValue(text)
  const filter = useMemo(
    () => readFilter({ q, ...definedOnly({ missing, differs, show, since }) }, environments, Date.now()),
    [q, missing, differs, show, since, environments],
  )
  const names = useMemo(() => stored.map(({ name }) => name), [stored])
  const rows = useMemo(() => filterRows(grid.rows, filter), [grid.rows, filter])

  const createSecret = () => canWrite && setOverlay({ kind: 'new' })
  const review = () => hasEdits(grid.edits.now) && setOverlay({ kind: 'review' })
  const showKeys = () => setOverlay({ kind: 'keys' })
  const focusFilter = () => filterInput.current?.focus()
  const keys = { grid, rows, columns: columns.shown, focusFilter, createSecret, review, showKeys }
  usePageKeys(keys)
  useNamedCell(search, stored, environments, grid.focus, () => setSearch({ key: undefined, environment: undefined }))

  function paste(event: ClipboardEvent): void {
    if (!canWrite || isTyping(event.target)) return
    const text = event.clipboardData.getData('text/plain')
    if (!isFile(text)) return
    event.preventDefault()
    setOverlay({ kind: 'import', text })
  }

  const newSecret = canWrite && (
    <Button kind="primary" onClick={createSecret}>
      New secret <kbd>N</kbd>
    </Button>
  )
  return (
    <ProjectPage isFull actions={newSecret}>
      <div className="flex min-h-0 flex-1 flex-col" onPaste={paste}>
        {grid.rows.length === 0 ? (
          <EmptyProject environments={environments} canWriteIn={canWriteIn} open={setOverlay} />
        ) : (
          <>
            <Toolbar
              rows={stored}
              environments={environments}
              columns={columns}
              search={search}
              text={text}
              onText={setText}
              filterInput={filterInput}
              onImport={canWrite ? () => setOverlay({ kind: 'import' }) : undefined}
              onUse={() => setOverlay({ kind: 'use' })}
              onKeys={showKeys}
            />
            <NoVariables names={names} />
            {error ? (
              <div className="px-6 pb-3">
                <ErrorNote error={error} />
              </div>
            ) : null}
            <GridTable
              label={`Secrets of ${project.name}`}
              rows={rows}
              columns={columns}
              active={active}
              wantsFocus={grid.wantsFocus}
              view={view}
              actions={actions}
              onKeyDown={(event, pageRows) => pressInGrid(event, pageRows, keys)}
            />
            {rows.length === 0 && isFiltering(filter) && (
              <div className="flex flex-1 items-start gap-3 px-6 pt-4 text-soft">
                <p className="py-1">No secret matches this filter.</p>
                <Button onClick={showAll}>Show all</Button>
              </div>
            )}
          </>
        )}
        <ValueBar grid={grid} environments={environments} />
        <SaveBar grid={grid} environments={environments} onReview={review} />
      </div>
      <GridOverlays ws={ws} prj={prj} environments={environments} grid={grid} />
      <LeaveGuard count={grid.edits.now.values.size + grid.edits.now.names.size} />
    </ProjectPage>
  )
}

function definedOnly<Fields extends Record<string, string | undefined>>(fields: Fields): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}

/** Several lines with names: a file rather than one value. */
const isFile = (text: string) => text.trim().includes('\n') && /^\s*(export\s+)?[A-Za-z_][\w.-]*\s*[=:]/m.test(text)

/** Goes to the cell that the address names, once, and takes it out of the address. */
function useNamedCell(
  { key, environment }: { readonly key?: string; readonly environment?: string },
  rows: readonly GridRow[],
  environments: readonly GridEnvironment[],
  focus: (place: { rowId: string; environmentId?: string | undefined }) => void,
  forget: () => void,
): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new address leads to a cell
  useEffect(() => {
    if (key === undefined) return
    const row = rows.find(({ name }) => name === key)
    if (row) focus({ rowId: row.id, environmentId: findEnvironment(environments, environment ?? '')?.id })
    forget()
  }, [key, environment])
}
