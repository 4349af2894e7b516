/** Where a command works: service, workspace, project and environment. Flag before variable before file before login. */
import type { Context } from '../context.ts'
import { isSet } from '../environment.ts'
import { type CliError, usageError } from '../error.ts'
import { type Logins, readLogins } from '../session/login-file.ts'
import { type FoundFile, findProjectFile, projectFileName, type Source } from './project-file.ts'

export type PlaceName = 'url' | 'workspace' | 'project' | 'environment'

/** What is known, and where it comes from, such as `--project`, `COFFER_PROJECT`, or the path of a file. */
export type Setting = { readonly value: string; readonly from: string }

export type Settings = {
  readonly file: FoundFile | undefined
  find(name: PlaceName): Setting | undefined
  /** With a token, or in CI, nobody signs in or chooses a project: variables do. */
  readonly isUnattended: boolean
}

export function readSettings(ctx: Context): Settings {
  const file = findProjectFile(ctx.cwd)
  let read: Logins | undefined
  const logins = (): Logins => {
    read ??= readLogins(ctx.env)
    return read
  }
  const find = (name: PlaceName): Setting | undefined => {
    const flag = ctx.flags[name]
    if (flag !== undefined) return { value: flag, from: `--${name}` }
    const variable = `COFFER_${name.toUpperCase()}`
    const ofVariable = ctx.env[variable]
    if (ofVariable) return { value: ofVariable, from: variable }
    const ofFile = file?.content[name]
    if (file && ofFile !== undefined) return { value: ofFile, from: file.path }
    const ofToken = name === 'url' ? undefined : ctx.tokenPlace?.[name]
    if (ofToken !== undefined) return { value: ofToken, from: 'the token' }
    const ofLogin =
      name === 'url' ? logins().lastUrl : name === 'workspace' ? logins().byUrl[urlOf(find)]?.workspace : undefined
    return ofLogin === undefined ? undefined : { value: ofLogin, from: 'the last login' }
  }
  const { COFFER_TOKEN, COFFER_TOKEN_FILE, CI } = ctx.env
  return { file, find, isUnattended: Boolean(COFFER_TOKEN || COFFER_TOKEN_FILE) || isSet(CI) }
}

const urlOf = (find: (name: PlaceName) => Setting | undefined): string => withoutSlash(find('url')?.value ?? '')

/** One spelling for each service, because logins are kept by address. */
const withoutSlash = (url: string): string => (URL.parse(url)?.href ?? url).replace(/\/+$/, '')

const hints: Readonly<Record<PlaceName, string>> = {
  url: 'coffer login URL',
  workspace: 'coffer init, or --workspace SLUG',
  project: 'coffer init, or --project SLUG',
  environment: 'coffer init, or --environment NAME',
}

/** What to do if a setting is missing. */
export const hintFor = ({ isUnattended }: Settings, name: PlaceName): string =>
  isUnattended ? `set COFFER_${name.toUpperCase()}` : hints[name]

/** Whether a flag or a variable names it. */
export const isGiven = ({ find }: Settings, name: 'project' | 'environment'): boolean =>
  [`--${name}`, `COFFER_${name.toUpperCase()}`].includes(find(name)?.from ?? '')

/** `sources` of the file, where they count: a flag or a variable that names a project replaces them. */
export function findListedSources(settings: Settings): readonly Source[] | undefined {
  const listed = isGiven(settings, 'project') ? undefined : settings.file?.content.sources
  return listed && listed.length > 0 ? listed : undefined
}

/** For a command that works on one place, while the file names several and none of them as its own. */
function refuseSources(settings: Settings, listed: readonly Source[], name: 'project' | 'environment'): CliError {
  const partOf = (source: Source, part: 'project' | 'environment') =>
    (isGiven(settings, part) ? undefined : source[part]) ?? settings.find(part)?.value ?? '…'
  const labels = listed.map((source) => {
    const label = `${partOf(source, 'project')}/${partOf(source, 'environment')}`
    return source.prefix === undefined ? label : `${label} as ${source.prefix}…`
  })
  const text = `This needs one ${name}, not the sources of ${projectFileName}: ${labels.join(', ')}.`
  return usageError(text, '-p PROJECT -e ENVIRONMENT')
}

export function requireSetting(settings: Settings, name: PlaceName): string {
  const found = settings.find(name)
  const listed = name === 'project' || name === 'environment' ? findListedSources(settings) : undefined
  if (!found && listed && (name === 'project' || name === 'environment')) throw refuseSources(settings, listed, name)
  if (!found)
    throw usageError(`The ${name === 'url' ? 'address of the service' : name} is not known.`, hintFor(settings, name))
  return name === 'url' ? addressOf(found) : found.value
}

/** Names the source of a wrong address. Never quotes it: it may hold a password. */
function addressOf({ value, from }: Setting): string {
  if (['http:', 'https:'].includes(URL.parse(value)?.protocol ?? '')) return withoutSlash(value)
  throw usageError(`The address of the service, from ${from}, is not an http(s) URL.`, 'https://coffer.example.com')
}

/** The address of the service, if it is known. */
export function findUrl(ctx: Context): string | undefined {
  const found = readSettings(ctx).find('url')
  return found && withoutSlash(found.value)
}

export type Place = {
  readonly url: string
  readonly workspace: string
  readonly project: string
  readonly environment: string
}

export function requireProject(ctx: Context): Omit<Place, 'environment'> {
  const settings = readSettings(ctx)
  return {
    url: requireSetting(settings, 'url'),
    workspace: requireSetting(settings, 'workspace'),
    project: requireSetting(settings, 'project'),
  }
}

export function requirePlace(ctx: Context): Place {
  return { ...requireProject(ctx), environment: requireSetting(readSettings(ctx), 'environment') }
}
