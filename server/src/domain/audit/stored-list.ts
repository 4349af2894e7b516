import { setBounded } from '../../bounded-map.ts'

/** A list known to be in the store: last marked as used at `sequence`, while the chain was cut at `cutSequence`. */
export type StoredList = { readonly sequence: number; readonly cutSequence: number }

/** Cache of the lists that are already stored, so that a repeated read needs no insert. */
export type StoredLists = {
  find(name: string): StoredList | undefined
  remember(name: string, stored: StoredList): void
}

const maxRemembered = 10_000

export function createStoredLists(): StoredLists {
  const remembered = new Map<string, StoredList>()
  return {
    find: (name) => remembered.get(name),
    remember: (name, stored) => setBounded(remembered, maxRemembered, name, stored),
  }
}
