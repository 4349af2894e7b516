/**
 * Seals page cursors whose row the caller may not be allowed to see. All cursors have the same length, because the
 * length of a name says something about it.
 */
import { associatedData, open, seal } from './envelope.ts'
import type { Keyring } from './keyring.ts'

/** A name of 255 bytes, a space and an id. */
const positionBytes = 292
const version = 1

/** `listId` names the list that the cursor belongs to: no other list accepts it. */
export function sealCursor({ active }: Keyring, listId: string, position: string): string {
  const padded = Buffer.from(position.padEnd(positionBytes))
  return seal(active.cursor, version, dataOf(listId), padded).toString('base64url')
}

/** Undefined if the cursor is not one of this list, or was sealed under a key that is gone. */
export function openCursor({ all }: Keyring, listId: string, cursor: string): string | undefined {
  const record = Buffer.from(cursor, 'base64url')
  for (const { cursor: key } of all) {
    try {
      return open(key, dataOf(listId), record).toString().trimEnd()
    } catch {
      // Sealed under another root, or made up.
    }
  }
  return undefined
}

const dataOf = (listId: string) => associatedData('cursor', listId)
