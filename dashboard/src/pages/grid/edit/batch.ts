/** Unsaved changes as one request, as a summary to review, and those that somebody else has overtaken. */
import type { SecretBatch } from '@coffer/sdk'
import type { GridEnvironment, GridRow } from '../cells.ts'
import type { Edits, ValueEdit } from './edits.ts'

type Rows = ReadonlyMap<string, GridRow>

/** The name that a secret will have once everything is saved. */
function nameOf(secretId: string, edits: Edits, rows: Rows, known: string): string {
  return edits.names.get(secretId) ?? edits.fresh.get(secretId)?.name ?? rows.get(secretId)?.name ?? known
}

export function toBatch(edits: Edits, rows: Rows, environmentId: string, message: string): SecretBatch {
  const renames = [...edits.names].flatMap(([id, to]) => {
    const row = rows.get(id)
    return row ? [{ op: 'rename' as const, key: row.name, to, environmentId }] : []
  })
  const described = new Set<string>()
  const writes = [...edits.values.values()].map((edit) => {
    const { secretId, environmentId, isPersonal, baseVersion: ifVersion, value } = edit
    const key = nameOf(secretId, edits, rows, edit.name)
    const place = { key, environmentId, ifVersion, ...(isPersonal && { isPersonal }) }
    if (value === null) return { op: 'delete' as const, ...place }
    const note = described.has(secretId) ? '' : (edits.fresh.get(secretId)?.note ?? '')
    described.add(secretId)
    return { op: 'set' as const, ...place, value, ...(note !== '' && { note }) }
  })
  return { operations: [...renames, ...writes], ...(message !== '' && { message }) }
}

export type ChangeLine = {
  readonly name: string
  readonly kind: 'added' | 'changed' | 'removed' | 'renamed'
  readonly isPersonal: boolean
  readonly to?: string
}
type EnvironmentChanges = { readonly environment: GridEnvironment; readonly lines: readonly ChangeLine[] }

/** The summary in a review, without values. Renames concern every environment and are listed apart. */
export function summarise(edits: Edits, rows: Rows, environments: readonly GridEnvironment[]) {
  // A secret that somebody else has deleted meanwhile cannot be renamed any more.
  const renames = [...edits.names].flatMap(([id, to]): ChangeLine[] => {
    const name = rows.get(id)?.name
    return name === undefined ? [] : [{ name, to, kind: 'renamed', isPersonal: false }]
  })
  const byEnvironment = Map.groupBy(edits.values.values(), ({ environmentId }) => environmentId)
  const touched = environments.flatMap((environment): EnvironmentChanges[] => {
    const lines = (byEnvironment.get(environment.id) ?? []).map((edit): ChangeLine => {
      const kind = edit.value === null ? 'removed' : edit.baseVersion === 0 ? 'added' : 'changed'
      return { name: nameOf(edit.secretId, edits, rows, edit.name), kind, isPersonal: edit.isPersonal }
    })
    const sorted = lines.toSorted((one, other) => (one.name < other.name ? -1 : 1))
    return lines.length > 0 ? [{ environment, lines: sorted }] : []
  })
  const count = edits.values.size + renames.length
  return { renames, touched, count }
}

export type Conflict = {
  readonly edit: ValueEdit
  /** Gone: the whole secret. Removed: its value in this environment. */
  readonly kind: 'changed' | 'removed' | 'gone'
  /** The version that is stored now; 0 if there is none. */
  readonly version: number
  /** The secret's name now. */
  readonly name: string
  readonly changedAt?: string
}

export function findConflicts(edits: Edits, rows: Rows): Conflict[] {
  if (edits.values.size === 0) return []
  // A secret that gets another name leaves its own to a new one.
  const kept = rows.values().filter(({ id }) => !edits.names.has(id))
  const byName = edits.fresh.size > 0 ? new Map(kept.map((row) => [row.name, row])) : undefined
  return [...edits.values.values()].flatMap((edit): Conflict[] => {
    const secret = edits.fresh.get(edit.secretId)
    const row = secret ? byName?.get(secret.name) : rows.get(edit.secretId)
    if (!row) return secret ? [] : [{ edit, kind: 'gone', version: 0, name: edit.name }]
    const stored = row.cells.get(edit.environmentId)?.[edit.isPersonal ? 'personal' : 'shared']
    const version = stored?.version ?? 0
    // A later version may have been read for the edit than the list of cells had.
    if (version === edit.baseVersion || (stored && version < edit.baseVersion)) return []
    if (!stored) return [{ edit, kind: 'removed', version, name: row.name }]
    return [{ edit, kind: 'changed', version, name: row.name, changedAt: stored.updatedAt }]
  })
}
