/**
 * Register of keys: the active root, all roots and signing keys, and when each was retired; and what `upgrade finish`
 * has switched on. Sealed under the master key, so that write access to the database is not enough to bring back a
 * rotated key, or to switch something off.
 */
import type { KeyObject } from 'node:crypto'
import { Failure, isFailure } from '../failure.ts'
import { associatedData, open, seal } from './envelope.ts'
import { isRegistered, type WrappedRootKey } from './keyring.ts'

type RegisteredRoot = WrappedRootKey & { readonly isActive: number }
type RegisteredSigner = { readonly id: string; readonly retiredAt: number | null }
type Rows = { readonly roots: readonly RegisteredRoot[]; readonly signers: readonly RegisteredSigner[] }
type Register = {
  readonly activeRoot: string
  readonly roots: string[]
  readonly signers: Record<string, number | null>
  /** How many upgrade switches are on. Absent before the first. */
  readonly level?: number
}

export function sealRegister(master: KeyObject, { roots, signers }: Rows, level: number): Buffer {
  const register: Register = {
    activeRoot: roots.find(({ isActive }) => isActive === 1)?.id ?? '',
    roots: roots.map(({ id }) => id),
    signers: Object.fromEntries(signers.map(({ id, retiredAt }) => [id, retiredAt])),
    level,
  }
  return seal(master, 1, place, Buffer.from(JSON.stringify(register)))
}

/**
 * Throws `keysChanged` if the rows do not match the register. A retired root may be missing: anything that needs it
 * fails by itself. A store without a register is accepted only if all of its roots are older than the register.
 * Returns the level of the store.
 */
export function requireRegistered(master: KeyObject, { roots, signers }: Rows, sealed: Uint8Array | null): number {
  if (sealed === null) {
    if (roots.some(isRegistered)) throw new Failure('keysChanged')
    return 0
  }
  const register = openRegister(master, sealed)
  const isListed =
    roots.some(({ id }) => id === register.activeRoot) &&
    roots.every(
      (root) =>
        isRegistered(root) &&
        register.roots.includes(root.id) &&
        root.isActive === (root.id === register.activeRoot ? 1 : 0),
    ) &&
    signers.every(({ id, retiredAt }) => Object.hasOwn(register.signers, id) && register.signers[id] === retiredAt)
  if (!isListed) throw new Failure('keysChanged')
  return register.level ?? 0
}

const place = associatedData('key-register')

function openRegister(master: KeyObject, sealed: Uint8Array): Register {
  try {
    // Only sealRegister creates such a record.
    return JSON.parse(open(master, place, sealed).toString('utf8')) as Register
  } catch (cause) {
    throw isFailure(cause, 'integrity') ? new Failure('keysChanged', undefined, { cause }) : cause
  }
}
