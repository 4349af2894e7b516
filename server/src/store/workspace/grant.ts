/** How grants are stored: the first in the columns `role` and `scope`, further ones as a list beside them. */
import type { Grant, Role } from '@coffer/contract/field'
import type { MacField } from '../../crypto/row-mac.ts'

/** Nobody is without a grant. */
export type Grants = readonly [Grant, ...Grant[]]

export type GrantColumns = { readonly role: Role; readonly scope: string; readonly grants: string | null }

export function toGrantColumns([first, ...others]: Grants): GrantColumns {
  const { role, scope } = first
  return { role, scope: JSON.stringify(scope), grants: others.length === 0 ? null : JSON.stringify(others) }
}

export function fromGrantColumns({ role, scope, grants }: GrantColumns): Grants {
  return [{ role, scope: JSON.parse(scope) }, ...(grants === null ? [] : JSON.parse(grants))]
}

/**
 * Rows with one grant were signed before this field existed. A node of an older version, which does not know it, finds
 * that the MAC of a row with several grants does not match, and grants nothing.
 */
export const furtherGrantsField = ({ grants }: GrantColumns): MacField[] => (grants === null ? [] : [grants])
