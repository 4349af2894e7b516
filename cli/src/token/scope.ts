/** Scopes: names such as `shop/production` instead of the ids of the API. */
import { type Api, ApiError, type Environment, type Scope } from '@coffer/sdk'
import { CliError, usageError } from '../error.ts'
import { visible } from '../output/table.ts'

type Places = {
  /** The scope that the words name. `flag` is the one that they were given with. */
  parse(words: readonly string[], flag?: string): Promise<Scope>
  describe(scope: Scope): Promise<string>
}

export const scopeWords = 'all, PROJECT, PROJECT/ENVIRONMENT or team:NAME'

/** Asks the service for each name once. */
export async function openPlaces(api: Api, ws: string): Promise<Places> {
  const teams = await api.project.list({ ws })
  const projects = teams.flatMap((team) => team.projects)
  const known = new Map<string, Promise<Environment[]>>()

  function environmentsOf(slug: string): Promise<Environment[]> {
    const list = known.get(slug) ?? api.environment.list({ ws, prj: slug }).catch(ifGone)
    known.set(slug, list)
    return list
  }

  async function find(word: string, flag: string): Promise<Partial<Scope>> {
    if (word === 'all') return { all: true }
    if (word.startsWith('team:')) {
      const name = word.slice('team:'.length)
      const found = teams.filter((team) => team.name === name || team.id === name)
      const [team, another] = found
      if (!team) throw missing('team', name, teams)
      if (another) throw usageError(`Several teams are called ${visible(name)}.`, `team:${team.id}`)
      return { teams: [team.id] }
    }
    const [slug = '', name, ...rest] = word.split('/')
    if (rest.length > 0 || slug === '' || name === '') throw usageError(`${flag} must be ${scopeWords}.`)
    const project = projects.find((one) => one.slug === slug || one.id === slug)
    if (!project) {
      throw missing(
        'project',
        slug,
        projects.map((one) => ({ name: one.slug })),
      )
    }
    if (name === undefined) return { projects: [project.id] }
    const environments = await environmentsOf(project.slug)
    const folded = name.toLowerCase()
    const environment = environments.find((one) => one.name.toLowerCase() === folded || one.id === folded)
    if (!environment) throw missing('environment', `${project.slug}/${name}`, environments)
    return { environments: [environment.id] }
  }

  async function nameEnvironment(id: string): Promise<string> {
    for (const { slug } of projects) {
      const environment = (await environmentsOf(slug)).find((one) => one.id === id)
      if (environment) return `${slug}/${environment.name}`
    }
    return id
  }

  return {
    async parse(words, flag = '--scope') {
      const found: Partial<Scope>[] = []
      for (const word of words) found.push(await find(word, flag))
      const collect = (list: 'teams' | 'projects' | 'environments') => [
        ...new Set(found.flatMap((scope) => scope[list] ?? [])),
      ]
      const all = found.some((scope) => scope.all)
      if (all && found.length > 1) throw usageError(`${flag} all stands alone.`)
      return { all, teams: collect('teams'), projects: collect('projects'), environments: collect('environments') }
    },
    async describe(scope) {
      if (scope.all) return 'all'
      const ofTeams = scope.teams.map((id) => `team:${teams.find((team) => team.id === id)?.name ?? id}`)
      const ofProjects = scope.projects.map((id) => projects.find((project) => project.id === id)?.slug ?? id)
      const ofEnvironments: string[] = []
      for (const id of scope.environments) ofEnvironments.push(await nameEnvironment(id))
      return [...ofTeams, ...ofProjects, ...ofEnvironments].join(', ')
    },
  }
}

/** A project that was deleted since it was listed. */
function ifGone(error: unknown): Environment[] {
  if (error instanceof ApiError && error.status === 404) return []
  throw error
}

function missing(kind: string, name: string, known: readonly { readonly name: string }[]): CliError {
  const names = known.slice(0, 20).map((one) => one.name)
  const hint = names.length > 0 ? `one of: ${visible(names.join(', '))}` : undefined
  return new CliError('notFound', `There is no ${kind} ${visible(name)} that you may see.`, hint)
}
