/** Rules for secret names: which texts are valid, and which are reserved. */
import { reservedSecretNames } from '@coffer/contract/secret'
import { invalid } from '../../failure.ts'
import { isId } from '../id.ts'

/** False for a text that can be neither a name nor an id, which saves a query. */
export const mayExist = (key: string): boolean => /^[A-Za-z0-9_-]{1,255}$/.test(key)

/** Paths accept a name or an id, so a name must not look like an id. `field` is the request field for the error. */
export function refuseId(field: string, name: string): void {
  if (isId(name)) throw invalid(field, 'must not look like an id.')
}

const reserved: ReadonlySet<string> = new Set(reservedSecretNames)

/** Checks new names only: older secrets keep a reserved name. `field` is the request field for the error. */
export function refuseReserved(field: string, name: string): void {
  refuseId(field, name)
  if (reserved.has(name)) {
    throw invalid(field, `${name} is reserved for a path under /secret: choose another name.`)
  }
}
