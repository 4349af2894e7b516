/** The logins of this user, one for each service, in a file that only the user can read. */
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
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
  /** Origins that `coffer trust` has confirmed. */
  readonly trusted?: readonly string[]
  /** Names of secrets that `coffer trust` has confirmed, by the path of the `.coffer.json` that allows them. */
  readonly trustedNames?: Readonly<Record<string, readonly string[]>>
}

/** The folder for files of the command line; undefined where the user has no home. */
export function configFolder(env: Environment): string | undefined {
  const base = env.XDG_CONFIG_HOME || (homeOf(env) && join(homeOf(env) ?? '', '.config'))
  return base ? join(base, 'coffer') : undefined
}

export function homeOf(env: Environment): string | undefined {
  if (env.HOME) return env.HOME
  if (env.HOME === '') return undefined
  try {
    const home = process.getBuiltinModule('node:os').homedir()
    return home === '/' ? undefined : home
  } catch {
    return undefined
  }
}

/** Undefined where the user has no home. */
export function loginFilePath(env: Environment): string | undefined {
  const folder = configFolder(env)
  return folder && join(folder, 'logins.json')
}

export function readLogins(env: Environment): Logins {
  const path = loginFilePath(env)
  try {
    return path ? parseLogins(readFileSync(path, 'utf8')) : { byUrl: {} }
  } catch {
    // No login yet, or a file that is not readable: signing in again replaces it.
    return { byUrl: {} }
  }
}

/** Takes the rights of others to the file away. Returns the path of a file that had given some, if it is this user's. */
export function repairLoginFile(env: Environment): string | undefined {
  const path = loginFilePath(env)
  try {
    const found = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false })
    if (path === undefined || !found || found.uid !== process.getuid?.() || (found.mode & 0o077) === 0) return undefined
    chmodSync(path, found.mode & 0o700)
    return path
  } catch {
    // Nothing can be changed there: coffer doctor says what is wrong.
    return undefined
  }
}

/** Leaves out entries that are no logins. Throws if the text is not JSON. */
export function parseLogins(text: string): Logins {
  const { byUrl, lastUrl, trusted, trustedNames } = Object(JSON.parse(text))
  const logins = Object.entries(Object(byUrl)).filter((entry): entry is [string, Login] => isLogin(entry[1]))
  return {
    byUrl: Object.fromEntries(logins),
    ...(typeof lastUrl === 'string' && { lastUrl }),
    ...(Array.isArray(trusted) && { trusted: trusted.filter((one) => typeof one === 'string') }),
    ...(trustedNames !== undefined && { trustedNames: namesByPath(trustedNames) }),
  }
}

const namesByPath = (found: unknown): Record<string, readonly string[]> =>
  Object.fromEntries(
    Object.entries(Object(found)).map(([path, names]) => [
      path,
      Array.isArray(names) ? names.filter((one) => typeof one === 'string') : [],
    ]),
  )

function isLogin(value: unknown): value is Login {
  const { email, userId, workspace, store, session } = Object(value)
  const isText = (field: unknown) => typeof field === 'string'
  return (
    isText(email) &&
    isText(userId) &&
    (workspace === undefined || isText(workspace)) &&
    (store === 'file' ? isText(session) : store === 'keychain')
  )
}

/** With the folders above it, for this user alone. With `recursive`, Node never returns from a path in /proc. */
export function makeFolder(path: string): void {
  if (existsSync(path)) return
  if (dirname(path) !== path) makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another command may have been first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Refuses before anybody signs in for nothing. */
export function requireLoginFolder(env: Environment): string {
  const folder = configFolder(env)
  if (!folder) {
    throw new CliError('failure', 'There is no folder for the login: HOME is not set.', 'set HOME or XDG_CONFIG_HOME')
  }
  try {
    makeFolder(folder)
    chmodSync(folder, 0o700)
    const probe = join(folder, `probe.${process.pid}`)
    writeFileSync(probe, '', { mode: 0o600 })
    rmSync(probe)
  } catch (error) {
    throw cannotWrite(folder, error)
  }
  return folder
}

/** Replaces the file in one step, so that a crash leaves the old or the new one. One command at a time. */
export function changeLogins(env: Environment, change: (logins: Logins) => Logins): void {
  const path = join(requireLoginFolder(env), 'logins.json')
  const fresh = `${path}.${process.pid}`
  const lock = `${path}.lock`
  try {
    waitForLock(lock)
    writeFileSync(fresh, `${JSON.stringify(change(readLogins(env)), undefined, 2)}\n`, { mode: 0o600 })
    renameSync(fresh, path)
  } catch (error) {
    rmSync(fresh, { force: true })
    throw cannotWrite(path, error)
  } finally {
    rmSync(lock, { force: true })
  }
}

/** A change takes a millisecond: a lock that stays was left behind by a command that was killed. */
const [lockMs, pauseMs] = [2_000, 5]

function waitForLock(path: string): void {
  for (let waitedMs = 0; waitedMs < lockMs; waitedMs += pauseMs) {
    try {
      closeSync(openSync(path, 'wx', 0o600))
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs)
    }
  }
}

const cannotWrite = (path: string, error: unknown) =>
  new CliError(
    'failure',
    `${path} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`,
    'set XDG_CONFIG_HOME to a folder that you can write to',
  )
