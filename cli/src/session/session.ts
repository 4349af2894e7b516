/** The session that `coffer login` has left for a service. */
import type { Environment } from '../environment.ts'
import { readLogins } from './login-file.ts'

export async function findSession(env: Environment, url: string): Promise<string | undefined> {
  return readLogins(env).byUrl[url]?.session
}
