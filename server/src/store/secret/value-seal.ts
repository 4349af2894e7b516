/** Seals and opens values: plaintext above this file, ciphertext below it. */
import type { KeyObject } from 'node:crypto'
import { associatedData, keyVersionOf, open, seal } from '../../crypto/envelope.ts'
import type { Reader } from '../engine/sql.ts'
import { findEnvironmentKey, type Keys, newestEnvironmentKey } from '../key/key.ts'
import type { StoredEnvironment } from './stored-value.ts'

/** Location of a value. The seal is bound to it, and to the version and the key version. */
export type ValuePlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly environmentId: string
  readonly secretId: string
  /** Owner of a personal value; empty for the shared one. */
  readonly ownerId: string
}

type SealedVersion = { readonly version: number; readonly sealed: Uint8Array; readonly authors: string }

/** Decrypted environment keys, cached with the workspace snapshot and dropped with it. */
export type KeyMemory = {
  readonly byVersion: Map<string, KeyObject>
  readonly newest: Map<string, NewestKey>
}
type NewestKey = { readonly version: number; readonly key: KeyObject }

/** The newest key in memory may have been rotated away. */
export function forgetOldKey({ environmentId, keyVersion }: StoredEnvironment, memory: KeyMemory): void {
  if (memory.newest.get(environmentId)?.version !== keyVersion) memory.newest.delete(environmentId)
}

/** True if a value can be opened, and a new one sealed, without a question. */
export function hasKeys(place: ValuePlace, sealed: Uint8Array | null, { newest, byVersion }: KeyMemory): boolean {
  if (!newest.has(place.environmentId)) return false
  return sealed === null || byVersion.has(keyName(place, keyVersionOf(sealed)))
}

/** `open` works at once if the key is in memory: for a thousand values, promises would cost as much as their decryption. */
export function valueSeals(db: Reader, keys: Keys) {
  async function loadKey(place: ValuePlace, version: number, memory: KeyMemory): Promise<KeyObject> {
    const key = await findEnvironmentKey(db, keys, place, version)
    memory.byVersion.set(keyName(place, version), key)
    return key
  }

  return {
    /** Call before sealing anything in these environments. */
    async loadNewestKeys(environmentIds: readonly string[], workspaceId: string, memory: KeyMemory): Promise<void> {
      for (const environmentId of environmentIds) {
        if (memory.newest.has(environmentId)) continue
        memory.newest.set(environmentId, await newestEnvironmentKey(db, keys, { workspaceId, environmentId }))
      }
    },

    /** Afterwards there are keys as `hasKeys` asks for. */
    async loadKeys(place: ValuePlace, sealed: Uint8Array | null, memory: KeyMemory): Promise<void> {
      await this.loadNewestKeys([place.environmentId], place.workspaceId, memory)
      if (sealed !== null && !hasKeys(place, sealed, memory)) await loadKey(place, keyVersionOf(sealed), memory)
    },

    /** Needs the newest key of the environment in memory. */
    seal(place: ValuePlace, version: number, value: string, authors: string, memory: KeyMemory): Buffer {
      const newest = memory.newest.get(place.environmentId)
      if (!newest) throw new Error('the newest key of the environment was not loaded')
      const { key, version: keyVersion } = newest
      return seal(key, keyVersion, valueData(place, version, authors, keyVersion), Buffer.from(value, 'utf8'))
    },

    open(place: ValuePlace, row: SealedVersion, memory: KeyMemory): string | Promise<string> {
      const keyVersion = keyVersionOf(row.sealed)
      const key = memory.byVersion.get(keyName(place, keyVersion))
      if (key) return openWith(key, place, row)
      return loadKey(place, keyVersion, memory).then((loaded) => openWith(loaded, place, row))
    },

    /** Needs the key of the value in memory. */
    openAtOnce(place: ValuePlace, row: SealedVersion, memory: KeyMemory): string {
      const key = memory.byVersion.get(keyName(place, keyVersionOf(row.sealed)))
      if (!key) throw new Error('the key of the value was not loaded')
      return openWith(key, place, row)
    },
  }
}

function openWith(key: KeyObject, place: ValuePlace, { version, authors, sealed }: SealedVersion): string {
  return open(key, valueData(place, version, authors, keyVersionOf(sealed)), sealed).toString('utf8')
}

const keyName = ({ environmentId }: ValuePlace, version: number) => `${environmentId}:${version}`

function valueData(place: ValuePlace, version: number, authors: string, keyVersion: number): Buffer {
  const shared = authors === '' ? 'value' : `value by ${authors}`
  const field = place.ownerId === '' ? shared : `personal:${place.ownerId}`
  const { workspaceId, projectId, environmentId, secretId } = place
  return associatedData('secret-value', workspaceId, projectId, environmentId, secretId, version, field, keyVersion)
}
