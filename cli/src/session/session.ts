/** The session that `coffer login` has left for a service. */
import type { Environment } from '../environment.ts'
import { CliError } from '../error.ts'
import { readKeychain } from './keychain.ts'
import { readLogins } from './login-file.ts'

export async function findSession(env: Environment, url: string): Promise<string | undefined> {
  const login = readLogins(env).byUrl[url]
  if (login?.store !== 'keychain') return login?.session
  const session = await readKeychain(url)
  if (session === undefined) {
    throw new CliError(
      'notSignedIn',
      `The keychain does not give out your session at ${url}: it is locked, not running, or has no such entry.`,
      `unlock it, or coffer login ${url} --store file`,
    )
  }
  return session
}
