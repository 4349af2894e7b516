/** Unsaved changes, with undo. They are in memory only: never in storage, never in the address. */
import type { GridRow } from '../cells.ts'

/** One value of a secret in an environment: that of everyone, or one's own. */
export type Slot = { readonly secretId: string; readonly environmentId: string; readonly isPersonal: boolean }

export type ValueEdit = Slot & {
  /** The secret's name at the time of the edit. */
  readonly name: string
  /** The version that this edit replaces; 0 for a missing value. */
  readonly baseVersion: number
  /** Null removes the value. */
  readonly value: string | null
}

export type FreshSecret = { readonly id: string; readonly name: string; readonly note: string }

export type Edits = {
  readonly values: ReadonlyMap<string, ValueEdit>
  /** New names by secret id. */
  readonly names: ReadonlyMap<string, string>
  /** Secrets that do not exist yet, by an id of this page. */
  readonly fresh: ReadonlyMap<string, FreshSecret>
}

export type EditState = { readonly now: Edits; readonly past: readonly Edits[] }

const none: Edits = { values: new Map(), names: new Map(), fresh: new Map() }
export const noEdits: EditState = { now: none, past: [] }

export type EditAction =
  /** `original` is the stored text, as far as it is known: typing it again takes the edit back. */
  | { readonly type: 'set'; readonly edit: ValueEdit; readonly original?: string | undefined }
  | { readonly type: 'rename'; readonly row: Pick<GridRow, 'id' | 'name' | 'isFresh'>; readonly to: string }
  | { readonly type: 'add'; readonly secret: FreshSecret; readonly values: readonly ValueEdit[] }
  /** Takes back all edits of a slot or of a secret. */
  | { readonly type: 'drop'; readonly slot: Slot }
  | { readonly type: 'drop-secret'; readonly secretId: string }
  /** Keeps an edit on top of a version that somebody else has written meanwhile. */
  | { readonly type: 'rebase'; readonly slot: Slot; readonly version: number }
  /** Keeps an edit of a secret that is gone: it becomes a new secret of that name. */
  | { readonly type: 'revive'; readonly slot: Slot }
  | { readonly type: 'discard' }
  | { readonly type: 'undo' }
  | { readonly type: 'saved' }

export const slotKey = ({ secretId, environmentId, isPersonal }: Slot) =>
  `${secretId} ${environmentId}${isPersonal ? ' personal' : ''}`

const mostSteps = 200

export function reduceEdits(state: EditState, action: EditAction): EditState {
  if (action.type === 'saved') return noEdits
  if (action.type === 'undo') {
    const last = state.past.at(-1)
    return last ? { now: last, past: state.past.slice(0, -1) } : state
  }
  const now = change(state.now, action)
  return now === state.now ? state : { now, past: [...state.past, state.now].slice(-mostSteps) }
}

function change(edits: Edits, action: Exclude<EditAction, { type: 'saved' | 'undo' }>): Edits {
  switch (action.type) {
    case 'set':
      return setValue(edits, action.edit, action.original)
    case 'rename':
      return rename(edits, action.row, action.to)
    case 'add': {
      const fresh = new Map(edits.fresh).set(action.secret.id, action.secret)
      const values = new Map([...edits.values, ...action.values.map((edit) => [slotKey(edit), edit] as const)])
      return { ...edits, fresh, values }
    }
    case 'drop':
      return withoutValue(edits, action.slot)
    case 'drop-secret':
      return withoutSecret(edits, action.secretId)
    case 'rebase': {
      const edit = edits.values.get(slotKey(action.slot))
      if (!edit) return edits
      // Nothing is left to remove.
      if (edit.value === null && action.version === 0) return withoutValue(edits, edit)
      return withValue(edits, { ...edit, baseVersion: action.version })
    }
    case 'revive':
      return revive(edits, action.slot)
    case 'discard':
      return edits.values.size + edits.names.size + edits.fresh.size === 0 ? edits : none
  }
}

const withValue = (edits: Edits, edit: ValueEdit): Edits => ({
  ...edits,
  values: new Map(edits.values).set(slotKey(edit), edit),
})

function setValue(edits: Edits, edit: ValueEdit, original: string | undefined): Edits {
  const before = edits.values.get(slotKey(edit))
  if (before?.value === edit.value) return edits
  const isAbsent = edit.value === null && edit.baseVersion === 0
  if (isAbsent || (original !== undefined && edit.value === original)) return withoutValue(edits, edit)
  // The first edit has seen the stored value: a later one must not overwrite what came in between unseen.
  return withValue(edits, { ...edit, baseVersion: before?.baseVersion ?? edit.baseVersion })
}

function withoutValue(edits: Edits, slot: Slot): Edits {
  const values = new Map(edits.values)
  if (!values.delete(slotKey(slot))) return edits
  const isLast = !values.values().some(({ secretId }) => secretId === slot.secretId)
  const fresh = new Map(edits.fresh)
  // A new secret without any value would not be saved.
  if (isLast) fresh.delete(slot.secretId)
  return { ...edits, values, fresh }
}

function withoutSecret(edits: Edits, secretId: string): Edits {
  const values = new Map([...edits.values].filter(([, edit]) => edit.secretId !== secretId))
  const names = new Map(edits.names)
  const fresh = new Map(edits.fresh)
  const isKnown = [names.delete(secretId), fresh.delete(secretId), values.size < edits.values.size].includes(true)
  return isKnown ? { values, names, fresh } : edits
}

function rename(edits: Edits, { id, name, isFresh }: Pick<GridRow, 'id' | 'name' | 'isFresh'>, to: string): Edits {
  const secret = edits.fresh.get(id)
  if (isFresh && secret) return { ...edits, fresh: new Map(edits.fresh).set(id, { ...secret, name: to }) }
  const names = new Map(edits.names)
  if (to === name) return names.delete(id) ? { ...edits, names } : edits
  if (names.get(id) === to) return edits
  // At the end: it may take a name that another rename sets free.
  names.delete(id)
  return { ...edits, names: names.set(id, to) }
}

function revive(edits: Edits, slot: Slot): Edits {
  const edit = edits.values.get(slotKey(slot))
  if (!edit) return edits
  const without = withoutValue(edits, slot)
  const { name, value } = edit
  if (value === null) return without
  const known = without.fresh.values().find((one) => one.name === name)
  const id = known?.id ?? freshId(name, without.fresh)
  const fresh = known ? without.fresh : new Map(without.fresh).set(id, { id, name, note: '' })
  return withValue({ ...without, fresh }, { ...edit, secretId: id, baseVersion: 0 })
}

/** An id of this page. A new secret that was renamed keeps its id, which must not be given to another of its first name. */
export function freshId(name: string, fresh: Edits['fresh']): string {
  let id = `new ${name}`
  for (let number = 2; fresh.has(id); number += 1) id = `new ${name}.${number}`
  return id
}
export const hasEdits = ({ values, names }: Edits) => values.size + names.size > 0

/** Adds the rows of new secrets, in the order of names, and shows new names. */
export function withEdits(rows: readonly GridRow[], { fresh }: Edits): readonly GridRow[] {
  if (fresh.size === 0) return rows
  const added = [...fresh.values()].map(
    ({ id, name, note }): GridRow => ({
      id,
      name,
      lowerName: name.toLowerCase(),
      note,
      dataType: 'text',
      cells: new Map(),
      isFresh: true,
    }),
  )
  return [...rows, ...added].toSorted((one, other) => (one.name < other.name ? -1 : 1))
}
