/**
 * Scopes: the part of a workspace that a credential or membership reaches. A team includes its projects and their
 * environments, a project includes its environments, an environment includes only itself. Pure functions.
 */
import type { NewScope, Scope } from '@coffer/contract/field'

export const everything: Scope = { all: true, teams: [], projects: [], environments: [] }

export type ScopeSet = {
  readonly all: boolean
  readonly teams: ReadonlySet<string>
  readonly projects: ReadonlySet<string>
  readonly environments: ReadonlySet<string>
}

export function toScopeSet(scope: Scope): ScopeSet {
  return {
    all: scope.all,
    teams: new Set(scope.teams),
    projects: new Set(scope.projects),
    environments: new Set(scope.environments),
  }
}

/** Lower-cases ids, removes duplicates, and empties the lists if `all` is set. */
export function normaliseScope(scope: NewScope): Scope {
  const tidy = (ids: readonly string[] | undefined) => [...new Set((ids ?? []).map((id) => id.toLowerCase()))].sort()
  if (scope.all) return { all: true, teams: [], projects: [], environments: [] }
  return {
    all: false,
    teams: tidy(scope.teams),
    projects: tidy(scope.projects),
    environments: tidy(scope.environments),
  }
}

/** The caller must be within every one of these scopes. */
export type Reach = readonly ScopeSet[]

type TeamLike = { readonly id: string }
type ProjectLike = { readonly id: string; readonly teamId: string }
type EnvironmentLike = { readonly id: string }

export const reachesAll = (reach: Reach): boolean => reach.every((set) => set.all)

export const reachesTeam = (reach: Reach, team: TeamLike): boolean =>
  reach.every((set) => set.all || set.teams.has(team.id))

export const reachesProject = (reach: Reach, project: ProjectLike): boolean =>
  reach.every((set) => set.all || set.teams.has(project.teamId) || set.projects.has(project.id))

export const reachesEnvironment = (reach: Reach, project: ProjectLike, environment: EnvironmentLike): boolean =>
  reach.every(
    (set) =>
      set.all || set.teams.has(project.teamId) || set.projects.has(project.id) || set.environments.has(environment.id),
  )
