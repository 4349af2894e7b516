/** Rows of the overview: filtered, and as a file for a spreadsheet. Pure functions. */
import type { AccessActor, AccessRow } from '@coffer/sdk'
import { actorKind } from './actor-kind.ts'

export type Right = AccessRow['environments'][number]['right']
export type ActorType = AccessActor['type']
type Environment = { readonly id: string; readonly name: string }

export const rightNames = { read: 'Read', write: 'Write', admin: 'Admin' } as const satisfies Record<Right, string>

export const rightAt = ({ environments }: AccessRow, environmentId: string): Right | undefined =>
  environments.find((one) => one.environmentId === environmentId)?.right

type AccessFilter = { readonly text: string; readonly type: ActorType | undefined }

/** By the name of the actor or of the owner of a token. */
export function filterRows(rows: readonly AccessRow[], { text, type }: AccessFilter): readonly AccessRow[] {
  const wanted = text.trim().toLowerCase()
  const has = (name: string | null) => name?.toLowerCase().includes(wanted) === true
  return rows.filter(
    ({ actor, ownerName }) => (type === undefined || actor.type === type) && (has(actor.name) || has(ownerName)),
  )
}

/** Comma-separated values, with a line for each actor. */
export function toCsv(rows: readonly AccessRow[], environments: readonly Environment[]): string {
  const head = ['Name', 'Kind', 'Owner', ...environments.map(({ name }) => name), 'Problem']
  const lines = rows.map((row) => [
    row.actor.name,
    actorKind[row.actor.type],
    row.ownerName ?? '',
    ...environments.map(({ id }) => rightAt(row, id) ?? 'none'),
    row.problem ?? '',
  ])
  return [head, ...lines].map((cells) => `${cells.map(toField).join(',')}\r\n`).join('')
}

/** Spreadsheets run a text that starts with one of these signs as a formula: an apostrophe makes it a text again. */
function toField(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
