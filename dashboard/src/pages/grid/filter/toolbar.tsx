import { useNavigate, useParams } from '@tanstack/react-router'
import { type RefObject, useEffect, useMemo, useState } from 'react'
import { Button } from '../../../parts/button.tsx'
import { Icon } from '../../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../../parts/menu.tsx'
import { plural } from '../../../parts/plural.ts'
import type { GridEnvironment, GridRow } from '../cells.ts'
import type { Columns } from './columns.ts'
import { isPeriod, periods, suggestFilters } from './filter.ts'
import type { GridSearch } from './search.ts'

type ToolbarProps = {
  readonly rows: readonly GridRow[]
  readonly environments: readonly GridEnvironment[]
  readonly columns: Columns
  readonly search: GridSearch
  readonly text: string
  readonly onText: (text: string) => void
  readonly filterInput: RefObject<HTMLInputElement | null>
  readonly onImport: (() => void) | undefined
  readonly onUse: () => void
  readonly onKeys: () => void
}

const writeAfterMs = 300

/** The search of the address without the fields of the filter. */
const noFilter = { missing: undefined, differs: undefined, show: undefined, since: undefined } as const

export function Toolbar({ rows, environments, columns, search, text, onText, filterInput, ...more }: ToolbarProps) {
  const setSearch = useSetSearch()
  const suggested = useMemo(() => suggestFilters(rows, environments), [rows, environments])
  const { since } = search
  const isOn = (filter: GridSearch) =>
    (['missing', 'differs', 'show', 'since'] as const).every((field) => search[field] === filter[field])
  const toggle = (filter: GridSearch) => setSearch({ ...noFilter, ...(isOn(filter) ? {} : filter) })

  const all = [...suggested.missing, ...suggested.differs, suggested.references]
  const usual = [suggested.missing[0], suggested.differs[0], suggested.references].filter((one) => one !== undefined)
  const useful = usual.filter((one) => one.count > 0 || isOn(one.search))
  const current = all.find((one) => isOn(one.search))
  const chips = current && !useful.includes(current) ? [...useful, current] : useful
  const period = isPeriod(since) ? periods[since] : undefined

  const entry = (label: string, filter: GridSearch): MenuEntry => ({
    text: label,
    isChecked: isOn(filter),
    onSelect: () => toggle(filter),
  })
  const label = (name: string) => name.charAt(0).toUpperCase() + name.slice(1)
  const groups = [
    suggested.missing.map((one) => entry(label(one.label), one.search)),
    suggested.differs.map((one) => entry(label(one.label), one.search)),
    [entry('Has references', suggested.references.search)],
    Object.entries(periods).map(([since, name]) => entry(`Changed in ${name}`, { since })),
  ]
  const hidden = columns.all.length - columns.shown.length
  return (
    <div className="grid-tools">
      <label className="search">
        <span className="sr-only">Filter</span>
        <Icon name="search" />
        <input
          ref={filterInput}
          type="search"
          placeholder={`Filter ${plural(rows.length, 'secret')}`}
          value={text}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onText(event.target.value)}
          onKeyDown={(event) => event.key === 'Escape' && onText('')}
        />
        <kbd>/</kbd>
      </label>
      {chips.map((one) => (
        <button
          key={one.label}
          type="button"
          className="chip"
          aria-pressed={isOn(one.search)}
          onClick={() => toggle(one.search)}
        >
          {one.label} <b>{one.count}</b>
        </button>
      ))}
      {period !== undefined && (
        <button type="button" className="chip" aria-pressed onClick={() => setSearch({ since: undefined })}>
          changed in {period}
        </button>
      )}
      <Menu className="chip" label="More filters" trigger={<Icon name="chevron" />} groups={groups} />
      <span className="flex-1" />
      <Menu
        trigger={
          <>
            <Icon name="columns" />
            {hidden > 0 ? `Columns (${hidden} hidden)` : 'Columns'}
          </>
        }
        groups={[
          columns.all.map(({ id, name }) => ({
            text: name,
            isChecked: columns.shown.some((one) => one.id === id),
            onSelect: () => columns.toggle(id),
          })),
        ]}
      />
      {more.onImport && <Button onClick={more.onImport}>Import</Button>}
      <Button onClick={more.onUse}>Use in app</Button>
      <Button kind="quiet" className="keys-button" onClick={more.onKeys}>
        Shortcuts
      </Button>
    </div>
  )
}

/** Changes fields of the address in place: Back leaves the grid instead of going through every filter. */
export function useSetSearch(): (fields: Partial<Record<keyof GridSearch, string | undefined>>) => void {
  const navigate = useNavigate()
  const { ws, prj } = useParams({ from: '/signed-in/$ws/$prj' })
  return (fields) =>
    void navigate({
      to: '/$ws/$prj',
      params: { ws, prj },
      replace: true,
      search: (before: GridSearch): GridSearch => {
        const next = Object.entries({ ...before, ...fields }).filter(([, value]) => value !== undefined && value !== '')
        return Object.fromEntries(next)
      },
    })
}

/** The text of the filter. It is shown at once and written to the address a little later. */
export function useFilterText(stored: string): [string, (text: string) => void] {
  const setSearch = useSetSearch()
  const [text, setText] = useState(stored)
  const [seen, setSeen] = useState(stored)
  const [written, setWritten] = useState(stored)
  if (stored !== seen) {
    setSeen(stored)
    // One's own text comes back from the address after more may have been typed.
    if (stored !== written) setText(stored)
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a pause in typing writes to the address
  useEffect(() => {
    if (text === stored) return
    const timer = setTimeout(() => {
      setWritten(text)
      setSearch({ q: text })
    }, writeAfterMs)
    return () => clearTimeout(timer)
  }, [text])
  return [text, setText]
}
