/** The project that a command works on: its calls, its environments, and what is missing if the service finds nothing. */
import { type Api, ApiError, type Environment } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { readSettings, requireProject, requireSetting } from '../place/place.ts'
import { requireWorkspace } from '../place/workspace-choice.ts'

export type Project = {
  readonly api: Api
  readonly path: { readonly ws: string; readonly prj: string }
}

export function openProject(ctx: Context): Project {
  const { workspace, project } = requireProject(ctx)
  return { api: connect(ctx), path: { ws: workspace, prj: project } }
}

export function requireEnvironmentName(ctx: Context): string {
  const [name, another] = requireEnvironmentNames(ctx)
  if (name === undefined || another !== undefined) throw usageError('Name one environment.', '--environment NAME')
  return name
}

/** One or more, as in `-e staging,production`. */
export const requireEnvironmentNames = (ctx: Context): string[] =>
  splitList(requireSetting(readSettings(ctx), 'environment'), '--environment')

/** The items of `a,b`, each once. */
export function splitList(text: string, flag: string): string[] {
  const items = [...new Set(text.split(',').map((item) => item.trim()))]
  if (items.includes('')) throw usageError(`${flag} must be a list such as a,b.`)
  return items
}

/** Those that the caller reaches. */
export async function listEnvironments({ api, path }: Project): Promise<Environment[]> {
  try {
    return await api.environment.list(path)
  } catch (error) {
    if (!isMissing(error)) throw error
    await requireWorkspace(api, path.ws)
    const message = `There is no project ${path.prj} in the workspace ${path.ws} that you may see.`
    throw new CliError('notFound', message, await nameProjects(api, path.ws))
  }
}

const maxNamed = 10

/** A hint. */
async function nameProjects(api: Api, ws: string): Promise<string> {
  const groups = await api.project.list({ ws }).catch(() => [])
  const slugs = groups.flatMap(({ projects }) => projects.map(({ slug }) => slug))
  const more = slugs.length > maxNamed ? ` and ${slugs.length - maxNamed} more` : ''
  return slugs.length === 0 ? 'coffer status' : `one of: ${slugs.slice(0, maxNamed).join(', ')}${more}`
}

/** A remark: programs would fail for want of a variable, without a word about the reason. */
export const withoutSecrets = (ws: string, prj: string, environment: string): string =>
  `${ws}/${prj}/${environment} has no secrets. try: coffer secrets set KEY -p ${prj} -e ${environment}`

/** Paths of the API take the id of an environment only. */
export async function requireEnvironment(project: Project, name: string): Promise<Environment> {
  return findEnvironment(project, await listEnvironments(project), name)
}

/** `list` is what the credential reaches. */
export function findEnvironment(
  { path }: Pick<Project, 'path'>,
  list: readonly Environment[],
  name: string,
): Environment {
  const folded = name.toLowerCase()
  const found = list.find((environment) => environment.id === folded || environment.name.toLowerCase() === folded)
  if (found) return found
  const names = list.map((environment) => environment.name)
  const [only, another] = names
  const missing = `There is no environment ${name} in the project ${path.prj}, or this credential does not reach it`
  if (only === undefined) throw new CliError('notFound', `${missing}.`)
  if (another !== undefined) throw new CliError('notFound', `${missing}.`, `one of: ${names.join(', ')}`)
  throw new CliError('notFound', `${missing}: it reaches ${only}.`, `-e ${only}, or COFFER_ENVIRONMENT=${only}`)
}

const isMissing = (error: unknown) => error instanceof ApiError && error.status === 404

type Asked = {
  readonly environments: readonly string[]
  readonly key?: string
  /** Said if the environments exist. */
  readonly missing?: string
}

/**
 * The service answers "Not found." whatever is missing. This finds out what it is, as far as the caller may know: the
 * project, an environment or the secret.
 */
export async function explainMissing<Answer>(
  project: Project,
  { environments, key, missing }: Asked,
  call: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await call()
  } catch (error) {
    if (!isMissing(error)) throw error
    const list = await listEnvironments(project)
    const names = environments.map((name) => findEnvironment(project, list, name).name)
    if (missing !== undefined) throw new CliError('notFound', missing, 'coffer history')
    throw key === undefined ? error : missingSecrets([key], names)
  }
}

export function missingSecrets(keys: readonly string[], environments: readonly string[]): CliError {
  const place = environments.length === 0 ? 'the project' : environments.join(', ')
  const shown = keys.length > 20 ? [...keys.slice(0, 20), `${keys.length - 20} more`] : keys
  return new CliError('notFound', `There is no secret ${shown.join(', ')} in ${place}.`, 'coffer secrets list')
}

/** Never quotes the text: it may be a value. */
export function requireName(name: string): string {
  if (/^[A-Za-z0-9_-]{1,255}$/.test(name)) return name
  throw usageError('The name of a secret has 1 to 255 letters, digits, _ and -.')
}

/** Names without duplicates. */
export const requireNames = (names: readonly string[]): string[] => [...new Set(names.map(requireName))]

export function parseCount(text: string, flag: string, least = 1): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : -1
  if (count < least) throw usageError(`${flag} must be a whole number from ${least} on.`)
  return count
}
