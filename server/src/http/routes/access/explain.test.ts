/** Explanations: what they say, that real requests agree with them, and who may ask for them. */
import { type Explanation, explainedActions } from '@coffer/contract/access'
import type { Scope } from '@coffer/contract/field'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

const everywhere: Scope = { all: true, teams: [], projects: [], environments: [] }
const nowhere: Scope = { all: false, teams: [], projects: [], environments: [] }

let service: TestService
let owner: TestUser
let admin: TestUser
let ann: TestUser
let workspaceId: string
let coreId: string
let shop: TestProject
let blog: TestProject
let annsToken: IssuedToken
let identityId: string
let inviteId: string

const environmentId = (project: TestProject, name: string) =>
  project.environments.find((environment) => environment.name === name)?.id ?? ''

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  coreId = await createTeam(service, owner.session, 'Core')
  shop = await createProject(service, owner.session, 'shop', { teamId: coreId })
  blog = await createProject(service, owner.session, 'blog')
  admin = await addUser(service, 'admin@example.com', { workspaceId, role: 'admin' })
  ann = await addUser(service, 'ann@example.com', {
    workspaceId,
    role: 'developer',
    scope: { ...nowhere, environments: [environmentId(shop, 'staging')] },
    further: [{ role: 'member', scope: { ...nowhere, projects: [shop.id] } }],
  })
  annsToken = await createToken(service, ann.session, { name: 'ci', scope: { projects: [shop.id] } })
  identityId = await create('oidc', {
    name: 'pipeline',
    issuer: 'https://issuer.example.com',
    audience: 'coffer',
    subject: 'repo:acme/shop',
    permission: 'read-write',
    scope: { environments: [environmentId(shop, 'production')] },
  })
  inviteId = await create('rbac', { email: 'new@example.com', role: 'member', scope: { all: true } })
})
afterAll(() => service.stop())

async function create(path: string, body: Record<string, unknown>): Promise<string> {
  const answer = await service.call<{ id: string }>('POST', `/v1/workspace/main/${path}`, {
    token: owner.session,
    body,
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.id
}

const ask = (query: Record<string, string>, token = owner.session) =>
  service.call<Explanation>('GET', `/v1/workspace/main/explain?${new URLSearchParams(query)}`, { token })

async function explain(actor: string, action: string, place: Record<string, string> = {}): Promise<Explanation> {
  const { status, body, text } = await ask({ actor, action, ...place })
  expect(status, text).toBe(200)
  return body
}

describe('the answer in sentences', () => {
  const staging = { project: 'shop', environment: 'staging' }
  const production = { project: 'shop', environment: 'production' }

  test('names the grant that allows it', async () => {
    const answer = await explain('ann@example.com', 'secret:write', staging)
    expect(answer).toEqual({
      allowed: true,
      status: 200,
      actor: { type: 'user', id: ann.memberId, name: 'ann@example.com' },
      action: 'secret:write',
      teamId: coreId,
      projectId: shop.id,
      environmentId: environmentId(shop, 'staging'),
      grant: { role: 'developer', scope: { ...nowhere, environments: [environmentId(shop, 'staging')] } },
      reasons: [
        'ann@example.com may write secrets in staging of shop: the grant developer for staging of shop allows it.',
        'ann@example.com has the grants developer for staging of shop and member for the project shop.',
      ],
    })
  })

  test('quotes the response that refuses it', async () => {
    const answer = await explain('ann@example.com', 'secret:write', production)
    expect(answer).toMatchObject({ allowed: false, status: 403, grant: null })
    expect(answer.reasons[0]).toBe(
      'ann@example.com may not write secrets in production of shop: the response is "This needs the role developer in the environment production."',
    )
  })

  test('names what is out of reach, by name', async () => {
    const answer = await explain('ann@example.com', 'secret:read', { project: 'blog', environment: 'production' })
    expect(answer).toMatchObject({ allowed: false, status: 404, projectId: blog.id })
    expect(answer.reasons[0]).toBe(
      'ann@example.com may not read secrets in production of blog: no grant of ann@example.com reaches it.',
    )
  })

  test('without an environment, names those where it is allowed', async () => {
    expect(await explain('ann@example.com', 'secret:write', { project: 'shop' })).toMatchObject({
      allowed: true,
      environmentId: null,
      reasons: [
        expect.stringMatching(/^ann@example.com may write secrets in staging of shop: the grant developer /),
        expect.any(String),
      ],
    })
    expect((await explain('ann@example.com', 'secret:read', { project: 'shop' })).reasons[0]).toContain(
      'in development of shop, staging of shop and production of shop: the grant member for the project shop allows it.',
    )
  })

  test('without a place, says that every place was tried', async () => {
    const { allowed, reasons } = await explain('ann@example.com', 'secret:write')
    expect({ allowed, reasons }).toEqual({
      allowed: true,
      reasons: [
        'ann@example.com may write secrets in the project shop: the grant developer for staging of shop allows it.',
        expect.stringContaining('has the grants'),
        'No place was named: every place was tried.',
      ],
    })
    const refused = await explain('ann@example.com', 'environment:write')
    expect(refused).toMatchObject({ allowed: false, status: 403 })
    expect(refused.reasons[0]).toBe(
      'ann@example.com may not change environments anywhere: the response is "This needs the role admin."',
    )
  })

  test('a token acts for its owner, within its own limits', async () => {
    const written = await explain(annsToken.id, 'secret:write', staging)
    expect(written).toMatchObject({ allowed: true, actor: { type: 'token', id: annsToken.id, name: 'ci' } })
    expect(written.reasons).toEqual([
      'The token ci may write secrets in staging of shop: it acts for ann@example.com, and the grant developer for staging of shop allows it.',
      'The token ci is read-write, and its scope is the project shop.',
      'The token ci has no rights that ann@example.com does not have.',
      'ann@example.com has the grants developer for staging of shop and member for the project shop.',
    ])
    const readOnly = await createToken(service, owner.session, { name: 'reader', permission: 'read' })
    expect((await explain(readOnly.id, 'secret:write', staging)).reasons[0]).toBe(
      'The token reader may not write secrets in staging of shop: it is read-only.',
    )
    const narrow = await createToken(service, owner.session, { name: 'narrow', scope: { projects: [blog.id] } })
    expect((await explain(narrow.id, 'secret:read', staging)).reasons[0]).toBe(
      'The token narrow may not read secrets in staging of shop: its scope is the project blog.',
    )
    expect((await explain(narrow.id, 'token:create')).reasons[0]).toBe(
      'The token narrow may not create tokens: the response is "Only a signed-in person can do this, not a token."',
    )
  })

  test('a revoked or expired token is refused with 401, and so is a disabled identity', async () => {
    const token = await createToken(service, owner.session, { name: 'short', expiresIn: '24h' })
    await service.call('DELETE', `/v1/workspace/main/tokens/${token.id}`, { token: owner.session })
    expect(await explain(token.id, 'secret:read', staging)).toMatchObject({
      allowed: false,
      status: 401,
      reasons: expect.arrayContaining([
        expect.stringMatching(/^The token short may not .*: it was revoked at 20.*Z\.$/),
      ]),
    })
    const expired = await createToken(service, owner.session, { name: 'old', expiresIn: '24h' })
    service.clock.offsetMs = 2 * 86_400_000
    try {
      const session = (await addUser(service, 'later@example.com', { workspaceId, role: 'admin' })).session
      const { body } = await ask({ actor: expired.id, action: 'secret:read' }, session)
      expect(body).toMatchObject({
        status: 401,
        reasons: expect.arrayContaining([expect.stringContaining('it expired at')]),
      })
    } finally {
      service.clock.offsetMs = 0
    }
    const path = `/v1/workspace/main/oidc/${identityId}`
    await service.call('PUT', path, { token: owner.session, body: { enabled: false } })
    expect(await explain(identityId, 'secret:read', production)).toMatchObject({ allowed: false, status: 401 })
    await service.call('PUT', path, { token: owner.session, body: { enabled: true } })
  })

  test('addresses that a token is bound to are described, and checked if one is named', async () => {
    const token = await createToken(service, owner.session, { name: 'bound', allowedIps: ['192.0.2.0/24'] })
    const described = await explain(token.id, 'secret:read', staging)
    expect(described).toMatchObject({ allowed: true })
    expect(described.reasons.at(-1)).toBe(
      'The token bound is accepted from 192.0.2.0/24 only: no address was named, so that was not checked.',
    )
    expect(await explain(token.id, 'secret:read', { ...staging, ip: '192.0.2.7' })).toMatchObject({ allowed: true })
    expect(await explain(token.id, 'secret:read', { ...staging, ip: '203.0.113.7' })).toMatchObject({
      allowed: false,
      status: 401,
      reasons: expect.arrayContaining([expect.stringContaining('from 192.0.2.0/24 only, not from 203.0.113.7')]),
    })
  })

  test('an identity has its own permission and scope', async () => {
    const answer = await explain(identityId, 'secret:write', production)
    expect(answer).toMatchObject({ allowed: true, grant: null, actor: { type: 'oidc', name: 'pipeline' } })
    expect(answer.reasons).toEqual([
      'The identity pipeline may write secrets in production of shop: its permission and its scope allow it.',
      'The identity pipeline is read-write, and its scope is production of shop.',
    ])
    expect((await explain(identityId, 'secret:read', staging)).reasons[0]).toBe(
      'The identity pipeline may not read secrets in staging of shop: its scope is production of shop.',
    )
    expect((await explain(identityId, 'share:write', production)).reasons[0]).toContain('Only a person can do this')
  })

  test('a service account answers as its best token would, and its tokens within their limits', async () => {
    const grants = [{ role: 'developer', scope: { environments: [environmentId(shop, 'staging')] } }]
    const id = await create('service-account', { name: 'deploy', grants })
    expect(await explain(id, 'secret:write', staging)).toMatchObject({
      allowed: true,
      actor: { type: 'service', id, name: 'deploy' },
      grant: { role: 'developer' },
      reasons: [
        'The service account deploy may write secrets in staging of shop: the grant developer for staging of shop allows it.',
        'The service account deploy has the grant developer for staging of shop.',
      ],
    })
    expect((await explain(id, 'secret:read', production)).reasons[0]).toBe(
      'The service account deploy may not read secrets in production of shop: no grant of the service account deploy reaches it.',
    )
    expect(await explain(id, 'token:create')).toMatchObject({ allowed: false, status: 403 })
    const tokenId = await create(`service-account/${id}/tokens`, {
      name: 'server',
      permission: 'read',
      scope: { environments: [environmentId(shop, 'staging')] },
      expiresIn: '30d',
    })
    const answer = await explain(tokenId, 'secret:read', staging)
    expect(answer).toMatchObject({ allowed: true, actor: { type: 'token', name: 'server' } })
    expect(answer.reasons[0]).toBe(
      'The token server may read secrets in staging of shop: it acts for the service account deploy, and the grant developer for staging of shop allows it.',
    )
    expect((await explain(tokenId, 'secret:write', staging)).reasons[0]).toContain('it is read-only')
  })

  test('somebody who is only invited may do nothing yet', async () => {
    for (const actor of ['new@example.com', inviteId]) {
      expect(await explain(actor, 'secret:read', staging)).toMatchObject({
        allowed: false,
        status: 404,
        actor: { type: 'user', id: inviteId, name: 'new@example.com' },
        reasons: expect.arrayContaining([expect.stringContaining('the invite has not been accepted yet')]),
      })
    }
  })

  test('what belongs to the whole workspace needs the scope all, or the owner', async () => {
    expect(await explain(owner.email, 'policy:write', staging)).toMatchObject({
      allowed: true,
      grant: { role: 'admin', scope: everywhere },
      reasons: [
        'owner@example.com may change the policy: owner@example.com owns the workspace.',
        'owner@example.com has the grant admin for the whole workspace.',
        'This concerns the whole workspace: the place makes no difference.',
      ],
    })
    expect((await explain(admin.id, 'policy:write')).reasons[0]).toContain('Only the owner of the workspace')
    expect((await explain(ann.email, 'member:read')).reasons[0]).toContain('This needs the role admin.')
  })

  test('teams are named by name or id', async () => {
    expect(await explain(admin.email, 'team:write', { team: 'Core' })).toMatchObject({ allowed: true, teamId: coreId })
    const answer = await explain(ann.email, 'project:create', { team: coreId })
    expect(answer).toMatchObject({ allowed: false, status: 403 })
    expect(answer.reasons[0]).toContain('may not create projects in the team Core')
  })

  test('personal values are told apart from shared ones', async () => {
    const answer = await explain(ann.email, 'secret:update', production)
    expect(answer.allowed).toBe(true)
    expect(answer.reasons.at(-1)).toBe('Shared values need the action secret:write.')
  })
})

test.each([
  ['the id of the member', () => ann.memberId ?? ''],
  ['the id of the person', () => ann.id],
  ['the id in upper case', () => ann.id.toUpperCase()],
  ['the address in another case', () => 'Ann@Example.com'],
])('finds a person by %s', async (_, actor) => {
  expect((await explain(actor(), 'workspace:read')).actor).toEqual({
    type: 'user',
    id: ann.memberId,
    name: 'ann@example.com',
  })
})

test('every action has an answer for everybody', async () => {
  for (const action of explainedActions) {
    for (const actor of [owner.id, ann.id, annsToken.id, identityId]) {
      const { reasons, allowed, status } = await explain(actor, action, { project: 'shop', environment: 'production' })
      expect(status === 200, `${action}: ${reasons[0]}`).toBe(allowed)
      expect(reasons[0]).toMatch(/ may (not )?\w.*\."?$/)
    }
  }
})

describe('refuses', () => {
  test.each([
    ['a developer', () => ann.session, 403],
    ['a read-only token of an admin is enough', () => '', 200],
    ['a stranger', () => 'stranger', 404],
    ['nobody', () => undefined, 401],
  ])('%s', async (who, credential, status) => {
    let token = credential()
    if (token === '') token = (await createToken(service, owner.session, { permission: 'read' })).token
    if (token === 'stranger') token = (await addUser(service, 'stranger@example.com')).session
    const path = `/v1/workspace/main/explain?actor=${ann.id}&action=secret:read`
    expect((await service.call('GET', path, token === undefined ? {} : { token })).status, who).toBe(status)
  })

  test.each([
    [{ actor: 'nobody@example.com' }, 404, 'Nobody in this workspace has this id or address'],
    [{ actor: '01890000-0000-7000-8000-000000000000' }, 404, 'Nobody in this workspace'],
    [{ actor: 'ci' }, 404, 'Nobody in this workspace'],
    [{ project: 'absent' }, 404, 'There is no project absent in this workspace.'],
    [{ project: 'shop', environment: 'absent' }, 404, 'There is no environment absent in the project shop.'],
    [{ environment: '01890000-0000-7000-8000-000000000000' }, 404, 'in this workspace.'],
    [{ team: 'absent' }, 404, 'There is no team absent in this workspace.'],
    [{ environment: 'staging' }, 400, 'environment: is a name'],
    [{ team: 'Core', project: 'blog' }, 400, 'team: is not the team of the project.'],
    [{ action: 'secret:steal' }, 400, 'action: '],
    [{ action: 'me:read' }, 400, 'action: '],
    [{ actor: '' }, 400, 'actor: '],
    [{ actor: 'ann\u0000@example.com' }, 400, 'actor: '],
    [{ ip: 'somewhere' }, 400, 'ip: is not an IP address.'],
  ])('%j with %i', async (query, status, message) => {
    const answer = await ask({ actor: ann.id, action: 'secret:read', ...query })
    expect(answer.status, answer.text).toBe(status)
    expect(answer.text).toContain(message)
  })

  test('people, tokens and places of another workspace', async () => {
    const other = await addUser(service, 'other@example.com')
    await service.call('POST', '/v1/workspace', { token: other.session, body: { name: 'Other', slug: 'other' } })
    const theirs = await createProject(service, other.session, 'theirs', { workspace: 'other' })
    const token = await createToken(service, other.session, { name: 'theirs' }, 'other')
    for (const actor of [other.email, other.id, token.id]) {
      expect(await ask({ actor, action: 'workspace:read' })).toMatchObject({ status: 404 })
    }
    const [environment] = theirs.environments
    for (const place of [{ project: 'theirs' }, { project: theirs.id }, { environment: environment?.id ?? '' }]) {
      expect((await ask({ actor: ann.id, action: 'secret:read', ...place })).status).toBe(404)
    }
  })
})

test('answers hold no credential, and leave the audit trail as it is', async () => {
  const trail = () => service.call<unknown[]>('GET', '/v1/workspace/main/audit?limit=200', { token: owner.session })
  const before = (await trail()).body.length
  const { text } = await ask({ actor: annsToken.id, action: 'secret:read', project: 'shop' })
  expect(text).not.toContain(annsToken.token)
  expect(text).not.toMatch(/hash|cof_/)
  expect((await trail()).body.length).toBe(before)
})
