/** The difference of two environments in the words of a promotion: what the target lacks, what differs, what it has alone. */
import type { Diff, Environment } from '@coffer/sdk'

export type Sides = { readonly from: Environment; readonly to: Environment }

export type KeyState = 'missing' | 'different' | 'extra' | 'same'
export type ComparedKey = { readonly name: string; readonly state: KeyState }

export function comparedKeys({ added, removed, changed, same }: Diff): ComparedKey[] {
  const keys = [
    ...removed.map((name) => ({ name, state: 'missing' }) as const),
    ...changed.map((name) => ({ name, state: 'different' }) as const),
    ...added.map((name) => ({ name, state: 'extra' }) as const),
    ...same.map((name) => ({ name, state: 'same' }) as const),
  ]
  return keys.sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** A promotion copies; it deletes nothing from the target. */
export const isPromotable = ({ state }: ComparedKey) => state === 'missing' || state === 'different'

export type KeyFilter = KeyState | 'all' | 'differences'

const passes = (state: KeyState, filter: KeyFilter) =>
  filter === 'all' || filter === state || (filter === 'differences' && state !== 'same')

export function filterKeys(keys: readonly ComparedKey[], filter: KeyFilter, text: string): ComparedKey[] {
  const wanted = text.trim().toLowerCase()
  return keys.filter(({ name, state }) => passes(state, filter) && name.toLowerCase().includes(wanted))
}

export const countKeys = (keys: readonly ComparedKey[], filter: KeyFilter) =>
  keys.filter(({ state }) => passes(state, filter)).length
