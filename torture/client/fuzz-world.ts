/** Tenants for the fuzzer, each with its own people, tokens and secrets; every value is a canary. */
import { must } from '../load/ask.ts'
import { createProject, createToken, password, register } from '../load/tenant.ts'

export type Credential = { readonly kind: string; readonly tenant: string; readonly token: string | undefined }
export type Tenant = {
  readonly name: string
  readonly owner: string
  readonly world: Map<string, string[]>
  readonly credentials: readonly Credential[]
}

export const canary = (tenant: string, at: number | string) => `canary-${tenant}-${at}-0123456789abcdef`

/** The tenants whose canaries appear in a text, plain or in base64. */
export function canariesIn(text: string): Set<string> {
  const plain = [...text.matchAll(/canary-(\w+)-/g)].map(([, tenant]) => tenant ?? '')
  const encoded = [...text.matchAll(/Y2FuYXJ5L[\w+/-]{8,}/g)].flatMap(([found]) => {
    return /canary-(\w+)-/.exec(Buffer.from(found, 'base64').toString('latin1'))?.[1] ?? []
  })
  return new Set([...plain, ...encoded])
}

const maxIds = 80

/** Collects ids from responses, so that later requests can use them. */
export function remember({ world }: Tenant, text: string): void {
  const ids = world.get('id') ?? []
  for (const [, id] of text.matchAll(/"id":"([0-9a-f-]{36})"/g)) {
    if (id !== undefined && !ids.includes(id) && ids.length < maxIds) ids.push(id)
  }
}

export async function createTenant(url: string, name: string): Promise<Tenant> {
  const email = (who: string) => `${who}@${name}.example.com`
  const owner = await register(url, email('owner'))
  const { id } = await must<{ id: string }>(url, 'POST', '/v1/workspace', { token: owner, body: { name, slug: name } })
  const root = `/v1/workspace/${name}`
  const projects = [await createProject(url, owner, 'first', name), await createProject(url, owner, 'second', name)]
  const environments = projects.flatMap((project) => project.environments.map((environment) => environment.id))
  const keys = ['FIRST', 'SECOND', 'THIRD']
  const ids: string[] = []
  for (const { slug, environments } of projects) {
    const secrets = keys.map((key) => ({ key, value: canary(name, `${slug}-${key}`), note: canary(name, 'note') }))
    const body = { environments: environments.map(({ id }) => id), secrets }
    const made = await must<{ results: { id: string }[] }>(url, 'POST', `${root}/project/${slug}/secret`, {
      token: owner,
      body,
    })
    ids.push(...made.results.map((result) => result.id))
  }
  const people = await Promise.all(
    ['admin', 'developer', 'member'].map(async (role) => {
      const body = { email: email(role), role, scope: { all: true } }
      const { inviteToken } = await must<{ inviteToken: string }>(url, 'POST', `${root}/rbac`, { token: owner, body })
      const account = { email: email(role), name: role, password, inviteToken }
      const { accessToken } = await must<{ accessToken: string }>(url, 'POST', '/v1/auth/register', { body: account })
      return { kind: `${role} session`, tenant: name, token: accessToken }
    }),
  )
  const scope = { environments: [environments[0]] }
  const readWrite = await createToken(url, owner, 'read-write', { workspace: name })
  const { accessToken: jwt } = await must<{ accessToken: string }>(url, 'POST', '/v1/auth/exchange', {
    token: readWrite,
  })
  const tokens: [kind: string, token: string][] = [
    ['owner session', owner],
    ['read token', await createToken(url, owner, 'read', { workspace: name })],
    ['read-write token', readWrite],
    ['scoped token', await createToken(url, owner, 'read-write', { workspace: name, scope })],
    ['JWT', jwt],
  ]
  const share = { content: 'a shared text', expiresIn: 3_600, maxViews: 100 }
  const shared = await must<{ id: string; token: string }>(url, 'POST', `${root}/project/first/secret-share`, {
    token: owner,
    body: share,
  })
  const identity = {
    name: 'ci',
    issuer: 'https://127.0.0.1:9',
    audience: 'coffer',
    subject: 's',
    permission: 'read',
    scope,
  }
  const { id: identityId } = await must<{ id: string }>(url, 'POST', `${root}/oidc`, { token: owner, body: identity })
  const teamIds = projects.map(({ teamId }) => teamId)
  const projectIds = projects.map((project) => project.id)
  const world = new Map<string, string[]>([
    ['ws', [name, id]],
    ['workspaceId', [name, id]],
    ['prj', ['first', 'second', ...projectIds]],
    ['environmentId', environments],
    ['environments', environments],
    ['from', environments],
    ['to', environments],
    ['teams', teamIds],
    ['teamId', teamIds],
    ['projects', projectIds],
    ['key', keys],
    ['id', [...teamIds, ...projectIds, ...ids, shared.id, identityId]],
    ['version', ['1', '2']],
    ['revision', ['0', '1', '2']],
    ['token', [shared.token]],
    ['email', [email('member'), email('new')]],
    ['issuer', ['https://127.0.0.1:9']],
    ['password', [password]],
    ['currentPassword', [password]],
  ])
  const own = tokens.map(([kind, token]) => ({ kind, tenant: name, token }))
  return { name, owner, world, credentials: [...own, ...people] }
}
