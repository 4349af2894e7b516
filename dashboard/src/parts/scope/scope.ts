/** Scopes: what they reach, how ticks in a tree change them, and how they read in words. Pure functions. */
import type { ProjectSummary, Scope, TeamGroup } from '@coffer/sdk'
import { plural } from '../plural.ts'

export const everything: Scope = { all: true, teams: [], projects: [], environments: [] }
export const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }

const kinds = ['teams', 'projects', 'environments'] as const
type Kind = (typeof kinds)[number]

export type ScopeNode = {
  readonly kind: Kind
  readonly id: string
  readonly name: string
  readonly children: readonly ScopeNode[]
  /** False for a container that the person sees only because something in it is theirs: they can grant that part alone. */
  readonly isGrantable: boolean
}

export const isNothing = (scope: Scope) => !scope.all && kinds.every((kind) => scope[kind].length === 0)

/** Everything that a person with the scope `own` can grant to others. */
export function grantableTree(teams: readonly TeamGroup[], own: Scope): ScopeNode[] {
  return teams.map(({ id, name, projects }) => {
    const hasTeam = own.all || own.teams.includes(id)
    const children = projects.map((project) => toProjectNode(project, hasTeam || own.projects.includes(project.id)))
    return { kind: 'teams', id, name, children, isGrantable: hasTeam }
  })
}

function toProjectNode({ id, name, environmentList }: ProjectSummary, isGrantable: boolean): ScopeNode {
  const children = environmentList.map((environment): ScopeNode => {
    return { kind: 'environments', ...environment, children: [], isGrantable: true }
  })
  return { kind: 'projects', id, name, children, isGrantable }
}

const idsOf = (scope: Scope) => new Set(kinds.flatMap((kind) => scope[kind]))

export type Tick = 'on' | 'part' | 'off'

/** The tick of every node. All parts together are not the whole: the whole also includes what is added later. */
export function ticksOf(tree: readonly ScopeNode[], scope: Scope): ReadonlyMap<string, Tick> {
  const chosen = idsOf(scope)
  const ticks = new Map<string, Tick>()
  const visit = (node: ScopeNode, isCovered: boolean): Tick => {
    const isOn = isCovered || chosen.has(node.id)
    const parts = node.children.map((child) => visit(child, isOn))
    const isSum = !node.isGrantable && parts.length > 0 && parts.every((part) => part === 'on')
    const tick = isOn || isSum ? 'on' : parts.some((part) => part !== 'off') ? 'part' : 'off'
    ticks.set(node.id, tick)
    return tick
  }
  for (const node of tree) visit(node, scope.all)
  return ticks
}

/** Ticking a node replaces the ticks below it. Removing a tick from a part of a ticked whole keeps its other parts. */
export function toggle(tree: readonly ScopeNode[], scope: Scope, id: string): Scope {
  const chosen = idsOf(scope)
  const path = findPath(tree, id)
  const node = path.at(-1)
  if (!node) return scope
  const clear = (one: ScopeNode): void => {
    chosen.delete(one.id)
    one.children.forEach(clear)
  }
  const choose = (one: ScopeNode): void => {
    clear(one)
    if (one.isGrantable) chosen.add(one.id)
    else one.children.forEach(choose)
  }
  if (ticksOf(tree, scope).get(id) !== 'on') choose(node)
  else {
    const whole = path.findIndex((one) => chosen.has(one.id))
    path.slice(Math.max(whole, 0)).forEach((one, index, rest) => {
      chosen.delete(one.id)
      const next = rest[index + 1]
      if (whole >= 0 && next) for (const child of one.children) if (child !== next) choose(child)
    })
    clear(node)
  }
  return toScope(tree, chosen)
}

function findPath(tree: readonly ScopeNode[], id: string): readonly ScopeNode[] {
  for (const node of tree) {
    if (node.id === id) return [node]
    const below = findPath(node.children, id)
    if (below.length > 0) return [node, ...below]
  }
  return []
}

function toScope(tree: readonly ScopeNode[], chosen: ReadonlySet<string>): Scope {
  const scope: Scope = { all: false, teams: [], projects: [], environments: [] }
  const visit = (node: ScopeNode): void => {
    if (chosen.has(node.id)) scope[node.kind].push(node.id)
    node.children.forEach(visit)
  }
  tree.forEach(visit)
  return scope
}

type Reached = { readonly project: ProjectSummary; readonly environments: readonly string[] }

/** The projects that a scope reaches, each with the names of its environments in reach. */
export function reachedBy(scope: Scope, teams: readonly TeamGroup[]): Reached[] {
  const chosen = idsOf(scope)
  return teams.flatMap((team) => {
    const isWholeTeam = scope.all || chosen.has(team.id)
    return team.projects.flatMap((project) => {
      const isWhole = isWholeTeam || chosen.has(project.id)
      const reached = project.environmentList.filter(({ id }) => isWhole || chosen.has(id))
      if (!isWhole && reached.length === 0) return []
      return { project, environments: reached.map(({ name }) => name) }
    })
  })
}

/** The part of these teams that a scope reaches: for scopes of others, whose reach is less than the reader's. */
export function reachedTeams(scope: Scope, teams: readonly TeamGroup[]): readonly TeamGroup[] {
  if (scope.all) return teams
  const chosen = idsOf(scope)
  return teams.flatMap((team) => {
    if (chosen.has(team.id)) return team
    const projects = team.projects.flatMap((project) => {
      if (chosen.has(project.id)) return project
      const environmentList = project.environmentList.filter(({ id }) => chosen.has(id))
      return environmentList.length > 0 ? { ...project, environmentList } : []
    })
    return projects.length > 0 ? { ...team, projects } : []
  })
}

/** A short name: "everything", "shop / staging", "2 projects and 1 environment". */
export function scopeInWords(scope: Scope, teams: readonly TeamGroup[]): string {
  if (scope.all) return 'everything'
  const chosen = idsOf(scope)
  const named = teams.filter(({ id }) => chosen.has(id)).map(({ name }) => `team ${name}`)
  const allProjects = teams.flatMap(({ projects }) => projects)
  const projects = allProjects.filter(({ id }) => chosen.has(id)).map(({ name }) => name)
  const environments = allProjects.flatMap(({ name, environmentList }) => {
    const names = environmentList.filter(({ id }) => chosen.has(id)).map((environment) => environment.name)
    return names.length > 0 ? { project: name, names } : []
  })
  const [first] = environments
  if (named.length + projects.length === 0 && first && environments.length === 1) {
    return `${first.project} / ${first.names.join(', ')}`
  }
  const single = environments.length === 0 && named.length + projects.length === 1
  if (single) return [...named, ...projects].join('')
  const count = environments.flatMap(({ names }) => names).length
  const parts = [
    named.length > 0 ? plural(named.length, 'team') : '',
    projects.length > 0 ? plural(projects.length, 'project') : '',
    count > 0 ? plural(count, 'environment') : '',
  ].filter(Boolean)
  // Its parts were deleted since.
  return parts.length === 0 ? 'nothing any more' : parts.join(', ')
}
