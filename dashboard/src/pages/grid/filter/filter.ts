/** Which rows the grid shows. All of it is in the address, so that a view can be sent to somebody. */
import { effective, findEnvironment, type GridEnvironment, type GridRow } from '../cells.ts'
import type { GridSearch } from './search.ts'

export type Filter = {
  readonly text: string
  readonly missingIn?: GridEnvironment
  readonly differs?: readonly [GridEnvironment, GridEnvironment]
  readonly hasReference: boolean
  readonly changedSince?: number
}

export const periods = { '1d': 'the last day', '7d': 'the last 7 days', '30d': 'the last 30 days' } as const
export const isPeriod = (text: string | undefined): text is keyof typeof periods =>
  text !== undefined && Object.hasOwn(periods, text)

/** Names of environments that are gone, and anything else that means nothing, filter nothing. */
export function readFilter(search: GridSearch, environments: readonly GridEnvironment[], now: number): Filter {
  const [one, other] = (search.differs ?? '').split(',').map((name) => findEnvironment(environments, name))
  const missingIn = findEnvironment(environments, search.missing ?? '')
  return {
    text: (search.q ?? '').trim().toLowerCase(),
    hasReference: search.show === 'references',
    ...(missingIn && { missingIn }),
    ...(one && other && { differs: [one, other] as const }),
    ...(isPeriod(search.since) && { changedSince: now - Number.parseInt(search.since, 10) * 86_400_000 }),
  }
}

export const isFiltering = ({ text, missingIn, differs, hasReference, changedSince }: Filter) =>
  text !== '' || missingIn !== undefined || differs !== undefined || hasReference || changedSince !== undefined

export function filterRows(rows: readonly GridRow[], filter: Filter): readonly GridRow[] {
  return isFiltering(filter) ? rows.filter((row) => matches(row, filter)) : rows
}

function matches(row: GridRow, { text, missingIn, differs, hasReference, changedSince }: Filter): boolean {
  if (text !== '' && !row.lowerName.includes(text)) return false
  // A row that is about to be created would otherwise vanish while it is filled in.
  if (row.isFresh) return true
  if (missingIn && !isMissing(row, missingIn)) return false
  if (differs && !isDifferent(row, differs)) return false
  if (hasReference && !refersToOthers(row)) return false
  return changedSince === undefined || isChangedSince(row, changedSince)
}

export const isMissing = (row: GridRow, { id }: GridEnvironment) => row.cells.get(id)?.shared === undefined

/** Compares what everyone gets: a missing value differs from any other. */
function isDifferent(row: GridRow, [one, other]: readonly [GridEnvironment, GridEnvironment]): boolean {
  return row.cells.get(one.id)?.shared?.same !== row.cells.get(other.id)?.shared?.same
}

const refersToOthers = (row: GridRow) =>
  row.cells.values().some((cell) => (effective(cell)?.references?.length ?? 0) > 0)

const isChangedSince = (row: GridRow, since: number) =>
  row.cells
    .values()
    .some(({ shared, personal }) => isAfter(shared?.updatedAt, since) || isAfter(personal?.updatedAt, since))

const isAfter = (at: string | undefined, since: number) => at !== undefined && Date.parse(at) >= since

export type Suggestion = { readonly label: string; readonly search: GridSearch; readonly count: number }

const mostSuggestions = 12

/** Filters that find something in this project, by kind. The last environment, usually production, comes first. */
export function suggestFilters(rows: readonly GridRow[], environments: readonly GridEnvironment[]) {
  const last = environments.toReversed()
  const missing = last.map((environment) => ({
    label: `missing in ${environment.name}`,
    search: { missing: environment.name },
    count: rows.filter((row) => isMissing(row, environment)).length,
  }))
  const pairs = last.flatMap((other, index) => last.slice(index + 1).map((one) => [one, other] as const))
  const differs = pairs.slice(0, mostSuggestions).map((pair) => ({
    label: `differs ${pair[0].name} / ${pair[1].name}`,
    search: { differs: `${pair[0].name},${pair[1].name}` },
    count: rows.filter((row) => isDifferent(row, pair)).length,
  }))
  const references = { label: 'references', search: { show: 'references' }, count: rows.filter(refersToOthers).length }
  return { missing: missing.slice(0, mostSuggestions), differs, references } satisfies Record<
    string,
    Suggestion | readonly Suggestion[]
  >
}
