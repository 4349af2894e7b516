/** One request of the tables that the matrix, the tenants and others ask by. */
import type { Permission, Scope } from '@coffer/contract/field'

/** Tokens as one caller sees them. */
export type TokenIds = { readonly itself?: string | undefined; readonly own: string; readonly others: string }

export type Ask = {
  readonly what: string
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** The team, project or environment in the path. */
  readonly on?: string
  /** The one that the body names. */
  readonly into?: string
  readonly token?: keyof TokenIds | 'absent'
  /** Is about the owner's share. */
  readonly isAboutShare?: true
  readonly newToken?: { readonly permission: Permission; readonly scope: Scope }
  /** What must be held as a whole, though a part of it is enough to see it. */
  readonly whole?: string
  /** More than the endpoint asks for by itself. */
  readonly needs?: 'developer' | 'admin'
  /** Writes a value of the caller's own. */
  readonly isPersonal?: true
  /** All that the answer names, of which everybody is shown what they hold. */
  readonly shows?: readonly string[]
  /** Where those who may ask are answered otherwise than with success. */
  readonly status?: number
  readonly isMalformed?: true
  /** Answers a question, though not by GET: changes nothing and leaves no trace. */
  readonly isQuestion?: true
}

export const absentId = '01890000-0000-7000-8000-00000000dead'

export const one = (what: string, path: string, more: Partial<Ask> = {}): Ask => ({ what, path, ...more })
