/**
 * Grants: roles within scopes. A member or a service account has, at each place, the highest role among the grants that
 * reach it. Pure functions.
 */
import type { Role } from '@coffer/contract/field'
import type { Grants } from '../store/workspace/grant.ts'
import { everything, type Reach, type ScopeSet, toScopeSet } from './scope.ts'

export const ranks: Record<Role, number> = { member: 0, developer: 1, admin: 2 }

/** For each role, the part of the workspace in which the holder has at least this role. */
export type Rights = Readonly<Record<Role, ScopeSet>>

export const wholeAdmin: Grants = [{ role: 'admin', scope: everything }]

const nothing: ScopeSet = { all: false, teams: new Set(), projects: new Set(), environments: new Set() }

export function toRights(grants: Grants): Rights {
  const [first, ...others] = grants
  // Most people have one grant: its set serves all roles up to its own.
  if (others.length === 0) return rightsWithin(toScopeSet(first.scope), first.role)
  return { member: partOf(grants, 'member'), developer: partOf(grants, 'developer'), admin: partOf(grants, 'admin') }
}

export function rightsWithin(scopeSet: ScopeSet, role: Role): Rights {
  const isAtLeast = (wanted: Role) => ranks[role] >= ranks[wanted]
  return {
    member: scopeSet,
    developer: isAtLeast('developer') ? scopeSet : nothing,
    admin: isAtLeast('admin') ? scopeSet : nothing,
  }
}

/** The union of the scopes that come with at least this role. */
function partOf(grants: Grants, role: Role): ScopeSet {
  const sets = grants.filter((grant) => ranks[grant.role] >= ranks[role]).map(({ scope }) => scope)
  return {
    all: sets.some(({ all }) => all),
    teams: new Set(sets.flatMap(({ teams }) => teams)),
    projects: new Set(sets.flatMap(({ projects }) => projects)),
    environments: new Set(sets.flatMap(({ environments }) => environments)),
  }
}

/** False if the holder has the role nowhere. */
export const holdsRole = (rights: Rights, role: Role): boolean => {
  const { all, teams, projects, environments } = rights[role]
  return all || teams.size + projects.size + environments.size > 0
}

/** The reach of a caller with these rights, in this role, within the further limits of their credential. */
export const reachInRole = (rights: Rights, role: Role, [, ...limits]: Reach): Reach => [rights[role], ...limits]
