/** Grants in words, and whether they can be given. Pure functions. */
import type { Grant, TeamGroup } from '@coffer/sdk'
import { isNothing, scopeInWords } from '../../../parts/scope/scope.ts'
import { roleName } from './role-field.tsx'

/** The most that one person or service account can have. */
export const maxGrants = 20

export const grantInWords = ({ role, scope }: Grant, teams: readonly TeamGroup[]) =>
  `${roleName(role)}: ${scopeInWords(scope, teams)}`

/** A short line, such as "Developer: shop / staging · Member: shop / production". */
export const grantsInWords = (grants: readonly Grant[], teams: readonly TeamGroup[]) =>
  grants.map((grant) => grantInWords(grant, teams)).join(' · ')

/** The service refuses a grant that reaches nothing. */
export const isIncomplete = (grants: readonly Grant[]) => grants.some(({ scope }) => isNothing(scope))
