/**
 * Frames of a backup: each is sealed under a key of its file and bound to its position and to the header, so that a
 * changed, moved, repeated or foreign frame never opens.
 */
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { associatedData, lengthPrefixed, open, seal } from './envelope.ts'
import type { RootKey } from './keyring.ts'

/** `header` are the bytes of the file before its first frame; they hold a random id. */
export function backupFileKey(root: RootKey, header: Uint8Array): KeyObject {
  return createSecretKey(
    createHmac('sha256', root.backup)
      .update(lengthPrefixed(['backup-file', root.id, header]))
      .digest(),
  )
}

export function sealFrame(key: KeyObject, kind: string, index: number, content: Uint8Array): Buffer {
  return seal(key, frameVersion, placeOf(kind, index), content)
}

/** Throws `integrity` unless this is the frame of this kind at this position. */
export function openFrame(key: KeyObject, kind: string, index: number, sealed: Uint8Array): Buffer {
  return open(key, placeOf(kind, index), sealed)
}

const frameVersion = 1
const placeOf = (kind: string, index: number) => associatedData('backup-frame', kind, index)
