/** The logins of this user, one for each service, in a file that only the user can read. */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../environment.ts'
import { CliError } from '../error.ts'

export type Login = {
  readonly email: string
  readonly userId: string
  /** The workspace to use where nothing else names one. */
  readonly workspace?: string
  readonly store: 'keychain' | 'file'
  /** Only with `store: file`. */
  readonly session?: string
}

export type Logins = {
  readonly byUrl: Readonly<Record<string, Login>>
  /** The service of the last login. */
  readonly lastUrl?: string
}

/** The folder for files of the command line; undefined where the user has no home. */
export function configFolder(env: Environment): string | undefined {
  const base = env.XDG_CONFIG_HOME || (homeOf(env) && join(homeOf(env) ?? '', '.config'))
  return base ? join(base, 'coffer') : undefined
}

function homeOf(env: Environment): string | undefined {
  if (env.HOME) return env.HOME
  try {
    return env.HOME === undefined && homedir() !== '/' ? homedir() : undefined
  } catch {
    return undefined
  }
}

const fileName = 'logins.json'

export function readLogins(env: Environment): Logins {
  const folder = configFolder(env)
  if (!folder) return { byUrl: {} }
  try {
    const { byUrl, lastUrl } = JSON.parse(readFileSync(join(folder, fileName), 'utf8'))
    return { byUrl: Object(byUrl), ...(typeof lastUrl === 'string' && { lastUrl }) }
  } catch {
    // No login yet, or a file that is not readable: signing in again replaces it.
    return { byUrl: {} }
  }
}

/** Replaces the file in one step, so that a crash leaves the old or the new one. */
export function writeLogins(env: Environment, logins: Logins): void {
  const folder = configFolder(env)
  if (!folder)
    throw new CliError('failure', 'There is no folder for the login: HOME is not set.', 'set HOME or XDG_CONFIG_HOME')
  const path = join(folder, fileName)
  const fresh = `${path}.${process.pid}`
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chmodSync(folder, 0o700)
    writeFileSync(fresh, `${JSON.stringify(logins, undefined, 2)}\n`, { mode: 0o600 })
    renameSync(fresh, path)
  } catch (error) {
    throw new CliError('failure', `${path} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`)
  }
}
