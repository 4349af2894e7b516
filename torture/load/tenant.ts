/** Accounts, projects and tokens for the cases, created through the API. */
import { setupCode } from '../../test/setup-code.ts'
import { must } from './ask.ts'

export const password = 'correct horse battery staple'

export type Project = {
  readonly id: string
  readonly slug: string
  readonly teamId: string
  readonly environments: readonly { readonly id: string; readonly name: string }[]
}
type SignedIn = { readonly accessToken: string }

export async function register(url: string, email = 'owner@example.com'): Promise<string> {
  const body = { email, name: 'Owner', password, setupCode }
  return (await must<SignedIn>(url, 'POST', '/v1/auth/register', { body })).accessToken
}

export async function signIn(url: string, email = 'owner@example.com'): Promise<string> {
  return (await must<SignedIn>(url, 'POST', '/v1/auth/login', { body: { email, password } })).accessToken
}

export async function createProject(url: string, token: string, slug: string, workspace = 'main'): Promise<Project> {
  const root = `/v1/workspace/${workspace}`
  const [team] = await must<{ id: string }[]>(url, 'GET', `${root}/team`, { token })
  return must<Project>(url, 'POST', `${root}/project`, { token, body: { name: slug, slug, teamId: team?.id } })
}

export async function createToken(
  url: string,
  token: string,
  permission: 'read' | 'read-write',
  more: { readonly workspace?: string; readonly scope?: object } = {},
): Promise<string> {
  const { workspace = 'main', scope = { all: true } } = more
  const body = { name: permission, permission, scope, expiresIn: 'never' }
  return (await must<{ token: string }>(url, 'POST', `/v1/workspace/${workspace}/tokens`, { token, body })).token
}

export async function verifyTrail(url: string, token: string, workspace = 'main'): Promise<string[]> {
  const verdict = await must<{ ok: boolean }>(url, 'GET', `/v1/workspace/${workspace}/audit/verify`, { token })
  return verdict.ok ? [] : [`the audit trail of ${workspace} does not verify: ${JSON.stringify(verdict)}`]
}
