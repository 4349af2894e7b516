/** One request in the tables used by the permission matrix, the tenant tests and others. */
import type { Permission, Scope } from '@coffer/contract/field'

/** Token ids from the view of one caller. */
export type TokenIds = { readonly itself?: string | undefined; readonly own: string; readonly others: string }

export type Ask = {
  readonly what: string
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** The team, project or environment in the path. */
  readonly on?: string
  /** What the body or query names, and where the role is needed too. */
  readonly into?: string | readonly string[]
  /** An environment that the request only reads from. */
  readonly from?: string
  readonly token?: keyof TokenIds | 'absent'
  /** Concerns the owner's share. */
  readonly isAboutShare?: true
  readonly newToken?: { readonly permission: Permission; readonly scope: Scope; readonly mayAdminister?: true }
  /** The object that the caller's scope must fully include; seeing it needs only a part. */
  readonly whole?: string
  /** Required in addition to the endpoint's own permission. */
  readonly needs?: 'developer' | 'admin'
  /** Writes a personal value of the caller. */
  readonly isPersonal?: true
  /** All ids in the response; each caller sees those within their scope. */
  readonly shows?: readonly string[]
  /** The status for authorised callers, if it is not success. */
  readonly status?: number
  readonly isMalformed?: true
  /** A read without GET: changes nothing and records nothing. */
  readonly isQuestion?: true
}

export const absentId = '01890000-0000-7000-8000-00000000dead'

export const one = (what: string, path: string, more: Partial<Ask> = {}): Ask => ({ what, path, ...more })
