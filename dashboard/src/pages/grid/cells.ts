/** Secrets as rows, with a cell for each environment. Holds no values. */
import type { Secret, SecretRow } from '@coffer/sdk'

export type GridEnvironment = { readonly id: string; readonly name: string; readonly hasPersonalOverrides: boolean }

export type GridCell = { readonly shared?: SecretRow; readonly personal?: SecretRow }

export type GridRow = {
  readonly id: string
  readonly name: string
  /** For filters, so that typing lowers no thousand names. */
  readonly lowerName: string
  readonly note: string
  readonly dataType: Secret['dataType']
  readonly cells: ReadonlyMap<string, GridCell>
  /** Created in this page and not saved yet. */
  readonly isFresh: boolean
}

export function toRows(secrets: readonly Secret[]): GridRow[] {
  return secrets.map(({ id, name, note, dataType, values }) => {
    const cells = new Map<string, GridCell>()
    for (const row of values) {
      const kind = row.isPersonal ? 'personal' : 'shared'
      cells.set(row.environmentId, { ...cells.get(row.environmentId), [kind]: row })
    }
    return { id, name, lowerName: name.toLowerCase(), note, dataType, cells, isFresh: false }
  })
}

/** The value that this person gets: their own, or else the shared one. */
export const effective = (cell: GridCell | undefined): SecretRow | undefined => cell?.personal ?? cell?.shared

export type Target = { readonly secretId: string; readonly environmentId: string }

export type Reference =
  | { readonly kind: 'cell'; readonly target: Target }
  /** In another project of the workspace: whether it exists is not known here. */
  | { readonly kind: 'elsewhere'; readonly project: string; readonly environment: string; readonly key: string }
  | { readonly kind: 'unresolved' }

export type ReferenceIndex = {
  readonly rowsByName: ReadonlyMap<string, GridRow>
  readonly environments: readonly GridEnvironment[]
}

/** `name` is the text between `${` and `}`, in the environment where it is written. */
export function findReference(name: string, environmentId: string, index: ReferenceIndex): Reference {
  const parts = name.split('.')
  const key = parts.at(-1) ?? ''
  if (parts.length === 3) return { kind: 'elsewhere', project: parts[0] ?? '', environment: parts[1] ?? '', key }
  const place = parts.length === 2 ? findEnvironment(index.environments, parts[0] ?? '')?.id : environmentId
  const row = index.rowsByName.get(key)
  if (place === undefined || !row || !effective(row.cells.get(place))) return { kind: 'unresolved' }
  return { kind: 'cell', target: { secretId: row.id, environmentId: place } }
}

/** Names are unique without regard to case. */
export function findEnvironment<One extends { readonly name: string }>(environments: readonly One[], name: string) {
  const folded = name.toLowerCase()
  return environments.find((one) => one.name.toLowerCase() === folded)
}

/** The next reminder of a row, in the environments that are shown. */
export function nextReminder(row: GridRow, environments: readonly GridEnvironment[]) {
  let next: { readonly at: string; readonly environment: string } | undefined
  for (const { id, name } of environments) {
    const at = row.cells.get(id)?.shared?.reminder?.nextReminderDate
    if (at !== undefined && (!next || at < next.at)) next = { at, environment: name }
  }
  return next
}
