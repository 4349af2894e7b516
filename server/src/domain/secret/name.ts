/** Names of secrets: which texts can be one, and which no secret may get any more. */
import { reservedSecretNames } from '@coffer/contract/secret'
import { invalid } from '../../failure.ts'

export const isId = (key: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(key)

/** False for a text that can be neither a name nor an id: the store is not asked for it. */
export const mayExist = (key: string): boolean => /^[A-Za-z0-9_-]{1,255}$/.test(key)

/** A path takes either, so that none may pass for the other; `field` is where the request has it. */
export function refuseId(field: string, name: string): void {
  if (isId(name)) throw invalid(field, 'must not look like an id.')
}

const reserved: ReadonlySet<string> = new Set(reservedSecretNames)

/** For a name that a secret is about to get; older secrets keep theirs. `field` is where the request has it. */
export function refuseReserved(field: string, name: string): void {
  refuseId(field, name)
  if (reserved.has(name)) {
    throw invalid(field, `${name} is a word of the paths under /secret and cannot be a name: choose another one.`)
  }
}
