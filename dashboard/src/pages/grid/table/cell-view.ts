/** How one cell looks: the stored state, with unsaved changes and revealed values on top. */

import type { CellValues } from '../../../api/cell-values.ts'
import type { GridCell } from '../cells.ts'
import { type Edits, slotKey, type ValueEdit } from '../edit/edits.ts'

type CellEdits = { readonly shared?: ValueEdit; readonly personal?: ValueEdit }

export function cellEdits({ values }: Edits, secretId: string, environmentId: string): CellEdits {
  const shared = values.get(slotKey({ secretId, environmentId, isPersonal: false }))
  const personal = values.get(slotKey({ secretId, environmentId, isPersonal: true }))
  return { ...(shared && { shared }), ...(personal && { personal }) }
}

export type CellView = {
  readonly state: 'missing' | 'empty' | 'hidden' | 'shown' | 'removed'
  /** The text of a shown value. */
  readonly text: string
  readonly isPersonal: boolean
  readonly isEdited: boolean
  readonly references: readonly string[]
}

type Half = { readonly isEmpty: boolean; readonly references: readonly string[]; readonly text: string | undefined }

const escapeOrReference = /\$\$\{|\$\{([A-Za-z0-9 _.-]{1,353})\}/g

/** Names between `${` and `}`, each once. */
function referencesIn(text: string): string[] {
  if (!text.includes('${')) return []
  return [...new Set([...text.matchAll(escapeOrReference)].flatMap(([, name]) => name ?? []))]
}

/** Null for a value that is about to be removed, undefined for none at all. */
function half(
  kind: 'shared' | 'personal',
  cell: GridCell | undefined,
  edits: CellEdits,
  shown: CellValues | undefined,
): Half | null | undefined {
  const edit = edits[kind]
  if (edit) {
    if (edit.value === null) return null
    const references = referencesIn(edit.value)
    return { isEmpty: edit.value === '', references, text: shown ? edit.value : undefined }
  }
  const row = cell?.[kind]
  return row && { isEmpty: row.isEmpty ?? false, references: row.references ?? [], text: shown?.[kind]?.text }
}

export function viewCell(cell: GridCell | undefined, edits: CellEdits, shown: CellValues | undefined): CellView {
  const personal = half('personal', cell, edits, shown)
  const shared = half('shared', cell, edits, shown)
  const value = personal ?? shared
  const isEdited = edits.shared !== undefined || edits.personal !== undefined
  const view = { isEdited, isPersonal: value !== undefined && value === personal, references: [], text: '' }
  if (value === null) return { ...view, state: 'removed', isPersonal: false }
  if (value === undefined) return { ...view, state: personal === null ? 'removed' : 'missing' }
  if (value.isEmpty) return { ...view, state: 'empty' }
  const { references, text } = value
  return { ...view, references, text: text ?? '', state: text === undefined ? 'hidden' : 'shown' }
}
