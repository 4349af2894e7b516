/** What an explanation says is what a request gets: the same questions, asked both ways. */
import type { ExplainedAction, Explanation } from '@coffer/contract/access'
import type { Scope } from '@coffer/contract/field'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

const none: Scope = { all: false, teams: [], projects: [], environments: [] }
const ws = '/v1/workspace/main'

let service: TestService
let owner: TestUser
let shop: TestProject
let blog: TestProject
let callers: { readonly name: string; readonly id: string; readonly credential: string }[]
let count = 0

const environmentOf = (project: TestProject, name: string) =>
  project.environments.find((environment) => environment.name === name)?.id ?? ''

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const { id: workspaceId } = (await service.call<{ id: string }>('GET', ws, { token: owner.session })).body
  shop = await createProject(service, owner.session, 'shop', {
    teamId: await createTeam(service, owner.session, 'Core'),
  })
  blog = await createProject(service, owner.session, 'blog')
  const member = (name: string, role: 'member' | 'developer' | 'admin', scope?: Scope, further: Scope[] = []) =>
    addUser(service, `${name}@example.com`, {
      workspaceId,
      role,
      ...(scope && { scope }),
      further: further.map((wider) => ({ role: 'member', scope: wider })),
    })
  const people = [
    owner,
    await member('admin', 'admin'),
    await member('team-admin', 'admin', { ...none, teams: [shop.teamId] }),
    await member('split', 'developer', { ...none, environments: [environmentOf(shop, 'staging')] }, [
      { ...none, projects: [shop.id] },
    ]),
    await member('reader', 'member'),
    await member('elsewhere', 'developer', { ...none, projects: [blog.id] }),
  ]
  callers = people.map(({ id, email, session }) => ({ name: email, id, credential: session }))
  for (const person of people) {
    for (const permission of ['read', 'read-write'] as const) {
      for (const project of [shop, blog]) {
        const scope = { environments: [environmentOf(project, 'staging')] }
        const body = { name: permission, permission, scope, expiresIn: '30d' as const }
        const made = await service.call<{ id: string; token: string }>('POST', `${ws}/tokens`, {
          token: person.session,
          body,
        })
        if (made.status !== 201) continue
        callers.push({ name: `${person.email}, ${permission}`, id: made.body.id, credential: made.body.token })
      }
    }
  }
  const wide = await createToken(service, owner.session, { name: 'wide' })
  callers.push({ name: 'wide', id: wide.id, credential: wide.token })
})
afterAll(() => service.stop())

type Asked = { readonly project: TestProject; readonly environmentId: string; readonly teamId: string }
type Request = readonly [method: string, path: string, body?: Record<string, unknown>]
type Question = readonly [
  action: ExplainedAction,
  level: 'workspace' | 'team' | 'project' | 'environment',
  (asked: Asked) => Request,
]

const P = ({ project }: Asked) => `${ws}/project/${project.slug}`
const fresh = () => `new-${++count}`

/** Nothing here takes a right from anybody, or removes what another question asks about. */
const questions: readonly Question[] = [
  ['workspace:read', 'workspace', () => ['GET', ws]],
  ['workspace:write', 'workspace', () => ['PUT', ws, { name: 'Main' }]],
  ['member:read', 'workspace', () => ['GET', `${ws}/rbac`]],
  [
    'member:write',
    'workspace',
    () => ['POST', `${ws}/rbac`, { email: `${fresh()}@example.com`, role: 'member', scope: { all: true } }],
  ],
  ['team:read', 'workspace', () => ['GET', `${ws}/team`]],
  ['team:create', 'workspace', () => ['POST', `${ws}/team`, { name: fresh() }]],
  ['team:write', 'team', ({ teamId }) => ['PUT', `${ws}/team/${teamId}`, { name: teamId.slice(-12) }]],
  ['project:create', 'team', ({ teamId }) => ['POST', `${ws}/project`, { name: 'New', slug: fresh(), teamId }]],
  ['project:read', 'project', (asked) => ['GET', P(asked)]],
  ['project:write', 'project', (asked) => ['PUT', P(asked), { name: asked.project.slug }]],
  ['environment:read', 'project', (asked) => ['GET', `${P(asked)}/environment`]],
  ['environment:create', 'project', (asked) => ['POST', `${P(asked)}/environment`, { name: fresh() }]],
  [
    'environment:write',
    'environment',
    (asked) => ['PUT', `${P(asked)}/environment/${asked.environmentId}`, { hasPersonalOverrides: true }],
  ],
  ['secret:read', 'environment', (asked) => ['GET', `${P(asked)}/secret?environmentId=${asked.environmentId}`]],
  ['secret:read', 'project', (asked) => ['GET', `${P(asked)}/secret`]],
  ['secret:read', 'workspace', () => ['GET', `${ws}/secret?q=A`]],
  [
    'secret:write',
    'environment',
    (asked) => [
      'POST',
      `${P(asked)}/secret`,
      { environments: [asked.environmentId], secrets: [{ key: fresh().replace('-', '_').toUpperCase(), value: '1' }] },
    ],
  ],
  ['share:read', 'project', (asked) => ['GET', `${P(asked)}/secret-share`]],
  ['sync:read', 'project', (asked) => ['GET', `${P(asked)}/sync`]],
  ['token:read', 'workspace', () => ['GET', `${ws}/tokens`]],
  ['oidc:read', 'workspace', () => ['GET', `${ws}/oidc`]],
  ['audit:read', 'workspace', () => ['GET', `${ws}/audit`]],
  ['access:read', 'workspace', () => ['GET', `${ws}/access`]],
]

test.each(questions)('%s for a place of the kind %s', async (action, level, request) => {
  const outcomes = new Set<number>()
  for (const project of [shop, blog]) {
    for (const name of level === 'environment' ? ['staging', 'production'] : ['staging']) {
      const asked = { project, environmentId: environmentOf(project, name), teamId: project.teamId }
      const place = {
        ...(level === 'team' && { team: asked.teamId }),
        ...((level === 'project' || level === 'environment') && { project: project.slug }),
        ...(level === 'environment' && { environment: asked.environmentId }),
      }
      for (const { name: who, id, credential } of callers) {
        const query = new URLSearchParams({ actor: id, action, ...place })
        const { body, text } = await service.call<Explanation>('GET', `${ws}/explain?${query}`, {
          token: owner.session,
        })
        const [method, path, sent] = request(asked)
        const real = await service.call(method, path, { token: credential, ...(sent && { body: sent }) })
        const said = `${who}: ${method} ${path}\n${real.text}\n${text}`
        expect(real.status < 300 ? 200 : real.status, said).toBe(body.status)
        expect(body.allowed, said).toBe(real.status < 300)
        outcomes.add(body.status)
      }
    }
  }
  // Everybody sees the workspace and its lists; anything else is refused to somebody.
  expect(outcomes.size).toBeGreaterThan(
    level === 'workspace' && action.endsWith(':read') && !/^(member|oidc|audit|access)/.test(action) ? 0 : 1,
  )
})
