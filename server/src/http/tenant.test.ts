/**
 * Two tenants that know each other's ids. A resource of the other tenant in a path, a query or a body gets exactly the
 * response of a missing one, and nothing is changed.
 */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Ask, absentId } from '../../../test/ask.ts'
import { type Content, describeChanges, readContent } from '../../../test/content.ts'
import {
  type Answer,
  addUser,
  createToken,
  engine,
  exchange,
  offline,
  startService,
  type TestService,
} from '../../../test/harness.ts'
import { absentSlug, requestsTo, requestTable } from '../../../test/request-table.ts'
import { type CredentialName, createTenants, credentialNames, type Tenant } from '../../../test/tenant.ts'
import { scopeOf } from '../../../test/world.ts'

/** Credentials that may do nearly everything in their own workspace. */
const powerful = ['session', 'read-write token', 'read-write JWT'] as const

let service: TestService
let a: Tenant
let b: Tenant
let before: Content
let requests = 0

beforeAll(async () => {
  service = await startService({ COFFER_SYNC: 'off' }, offline)
  ;({ a, b } = await createTenants(service))
})
afterAll(async () => {
  console.log(`tenants: ${requests} requests on ${engine}`)
  await service.stop()
})
beforeEach(async () => {
  before = await readContent(service.app.services)
})
afterEach(async () => {
  const after = await readContent(service.app.services)
  expect(describeChanges(before, after)).toEqual([])
  expect(after.trail).toBe(before.trail)
})

type Request = { readonly title: string; readonly endpoint: Endpoint; readonly ask: Ask }

const endpointNames = Object.keys(endpoints).filter((name): name is EndpointName => name in endpoints)

/** Every request about a tenant's workspace. */
function requestsOf({ world, tokenId, adminTokenId }: Tenant): Request[] {
  const table = requestTable(world, { own: tokenId, others: adminTokenId })
  return endpointNames.flatMap((name) => {
    const endpoint: Endpoint = endpoints[name]
    if (!endpoint.path.includes('/:ws')) return []
    return requestsTo(table, name).map((ask) => ({ title: `${name}, ${ask.what}`, endpoint, ask }))
  })
}

function send(tenant: Tenant, credential: CredentialName, { endpoint, ask }: Request): Promise<Answer> {
  requests++
  return service.call(endpoint.method, ask.path, { token: tenant.credentials[credential], body: ask.body })
}

/** The request with a text in its path or body replaced by another; undefined if the text does not occur. */
function swap(request: Request, from: string, to: string): Request | undefined {
  const { path, body } = request.ask
  const text = JSON.stringify({ path, ...(body && { body }) })
  if (!text.includes(from)) return undefined
  // The text was made from the same two fields.
  const swapped = JSON.parse(text.replaceAll(from, to)) as Pick<Ask, 'path' | 'body'>
  return { ...request, title: `${request.title} with ${to}`, ask: { ...request.ask, ...swapped } }
}

/** Resources in the same place in both tenants. */
function counterparts(): { readonly mine: string; readonly theirs: string }[] {
  const idsOf = ({ world, tokenId, adminTokenId }: Tenant) => [
    ...Object.values(world.teams),
    ...Object.values(world.projects),
    ...Object.values(world.environments),
    ...Object.values(world.secrets),
    world.heirId,
    world.ownerMemberId,
    world.invite.id,
    world.identityId,
    world.service.id,
    ...Object.values(world.service.tokens),
    world.share.id,
    world.syncs.draft,
    world.syncs.live,
    tokenId,
    adminTokenId,
  ]
  const theirs = idsOf(a)
  return idsOf(b).map((mine, index) => ({ mine, theirs: theirs[index] ?? '' }))
}

type Swap = { readonly foreign: Request; readonly absent: Request; readonly place: 'path' | 'query' | 'scope' | 'body' }

/** Requests in tenant B with ids of tenant A, each next to the same request with a missing id. */
function swaps(): Swap[] {
  return requestsOf(b).flatMap((request) => {
    const { path, body } = request.ask
    if (JSON.stringify([path, body]).includes(absentId)) return []
    const named = counterparts().filter(({ mine }) => swap(request, mine, mine))
    const replace = (pairs: typeof named, to: (pair: (typeof named)[number]) => string) =>
      pairs.reduce((rest, pair) => swap(rest, pair.mine, to(pair)) ?? rest, request)
    const [route, query = ''] = path.split('?')
    // Each id alone, and all of them together.
    return [...named.map((pair) => [pair]), ...(named.length > 1 ? [named] : [])].map((pairs) => {
      const isIn = (text: string | undefined) => pairs.some(({ mine }) => text?.includes(mine))
      const place = isIn(route) ? 'path' : isIn(query) ? 'query' : (body?.scope ?? body?.grants) ? 'scope' : 'body'
      return { foreign: replace(pairs, (pair) => pair.theirs), absent: replace(pairs, () => absentId), place }
    })
  })
}

/** Whether the credential passes the checks that come before the resources are looked up. */
const mayAsk = (credential: CredentialName, { endpoint, ask }: Request) =>
  credential === 'session' || !(ask.isPersonal || sessionOnly.includes(endpoint.permission))
const sessionOnly = [
  ...['token:create', 'token:transfer', 'service:token', 'policy:write', 'workspace:handover', 'workspace:delete'],
]

const volatileHeaders = new Set(['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset'])

/** Everything by which a caller could distinguish two responses, with the ids that the caller sent masked. */
function visible({ status, headers, text }: Answer, sent: readonly string[] = []) {
  const shown = [...headers].map(([name, value]) => `${name}: ${volatileHeaders.has(name) ? '' : value}`)
  const body = sent.reduce((rest, id) => rest.replaceAll(id, '<id>'), text)
  return { status, headers: shown.sort(), body }
}

test.each(credentialNames)(
  'the %s of another tenant finds and changes nothing, as in a missing workspace',
  async (credential) => {
    const wrong: string[] = []
    for (const request of requestsOf(a)) {
      const [theirs, ...others] = await Promise.all(
        [a.world.slug, a.world.workspaceId, absentSlug, absentId].flatMap((place) => {
          const there = swap(request, `/workspace/${a.world.slug}`, `/workspace/${place}`)
          return there ? send(b, credential, there) : []
        }),
      )
      if (!theirs) continue
      const { status, text } = theirs
      if (status !== 404 || text !== '{"message":"Not found."}') wrong.push(`${request.title}: ${status} ${text}`)
      for (const answer of others) expect(visible(answer), request.title).toEqual(visible(theirs))
    }
    expect(wrong).toEqual([])
  },
)

test.each(credentialNames)('the %s of a tenant sees only its own workspace', async (credential) => {
  const token = b.credentials[credential]
  const workspaces = await service.call<{ slug: string }[]>('GET', '/v1/workspace', { token })
  expect(workspaces.body.map(({ slug }) => slug)).toEqual(['beta'])
  const me = await service.call('GET', '/v1/me', { token })
  const lists = await Promise.all(
    ['team', 'project', 'tokens', 'rbac', 'audit?limit=200', 'audit?format=ndjson'].map((path) =>
      service.call('GET', `/v1/workspace/beta/${path}`, { token }),
    ),
  )
  const theirs = [a.world.workspaceId, a.owner.id, a.owner.email, ...counterparts().map((pair) => pair.theirs)]
  const text = [me, workspaces, ...lists].map((answer) => answer.text).join()
  expect(theirs.filter((id) => text.includes(id))).toEqual([])
})

test.each(powerful)(
  'the %s finds nothing by the ids of another tenant in a path, query or body, as by missing ones',
  async (credential) => {
    const wrong: string[] = []
    const counts = { path: 0, query: 0, scope: 0, body: 0 }
    const sent = [absentId, ...counterparts().map((pair) => pair.theirs)]
    for (const { foreign, absent, place } of swaps()) {
      if (!mayAsk(credential, foreign)) continue
      counts[place]++
      const [theirs, nobodys] = [await send(b, credential, foreign), await send(b, credential, absent)]
      const { status, text } = theirs
      const isFilter = place === 'query' && foreign.endpoint.permission === 'audit:read'
      const expected = isFilter ? 200 : place === 'scope' ? 400 : 404
      if (status !== expected) wrong.push(`${foreign.title}: expected ${expected}, was ${status} ${text}`)
      // A filter without matches gives an empty list or an empty stream.
      if (isFilter && text !== '[]' && text !== '') wrong.push(`${foreign.title}: found ${text}`)
      expect(visible(theirs, sent), foreign.title).toEqual(visible(nobodys, sent))
    }
    expect(wrong).toEqual([])
    expect(counts.path).toBeGreaterThan(100)
    expect(counts.query).toBeGreaterThan(30)
    expect(counts.body).toBeGreaterThan(20)
    if (credential === 'session') expect(counts.scope).toBeGreaterThan(5)
  },
)

test('within a tenant, a resource outside the scope looks like a missing one', async () => {
  const { world, owner } = b
  const { teams, projects, environments } = world
  const at = '/v1/workspace/beta'
  const pairs: [method: string, hidden: string, absent: string, body?: unknown][] = [
    ['GET', `${at}/project/${projects.wrong}`, `${at}/project/${absentId}`],
    ['GET', `${at}/project/wrong`, `${at}/project/${absentSlug}`],
    ['GET', `${at}/project/${projects.other}/environment`, `${at}/project/${absentId}/environment`],
    ['PUT', `${at}/project/wrong`, `${at}/project/${absentSlug}`, { name: 'Renamed' }],
    ['DELETE', `${at}/project/wrong`, `${at}/project/${absentSlug}`],
    ['POST', `${at}/project/wrong/environment`, `${at}/project/${absentSlug}/environment`, { name: 'fresh' }],
    ['PUT', `${at}/team/${teams.wrong}`, `${at}/team/${absentId}`, { name: 'Renamed' }],
    ['DELETE', `${at}/team/${teams.empty}`, `${at}/team/${absentId}`],
    ...[environments.sibling, environments.wrong].flatMap((id): typeof pairs => [
      [
        'PUT',
        `${at}/project/right/environment/${id}`,
        `${at}/project/right/environment/${absentId}`,
        { name: 'fresh' },
      ],
      ['DELETE', `${at}/project/right/environment/${id}`, `${at}/project/right/environment/${absentId}`],
    ]),
    ['DELETE', `${at}/tokens/${b.adminTokenId}`, `${at}/tokens/${absentId}`],
    ['POST', `${at}/tokens/${b.adminTokenId}/rotate`, `${at}/tokens/${absentId}/rotate`],
  ]
  const scope = scopeOf(world, 'right environment')
  const { token } = await createToken(service, owner.session, { scope }, 'beta')
  const jwt = await exchange(service, token)
  before = await readContent(service.app.services)
  for (const credential of [token, jwt]) {
    for (const [method, hidden, absent, body] of pairs) {
      const options = { token: credential, body }
      const [there, nowhere] = [
        await service.call(method, hidden, options),
        await service.call(method, absent, options),
      ]
      requests += 2
      expect(there.status, hidden).toBe(404)
      expect(visible(there), hidden).toEqual(visible(nowhere))
    }
  }
})

test('a token reaches only the workspace it was created in, even if its creator belongs to two', async () => {
  const { workspaceId } = a.world
  const both = await addUser(service, 'both@example.com', { workspaceId, role: 'admin' })
  await service.call('POST', '/v1/workspace', { token: both.session, body: { name: 'Gamma', slug: 'gamma' } })
  const { token } = await createToken(service, both.session, {}, 'gamma')
  const jwt = await exchange(service, token)
  before = await readContent(service.app.services)
  for (const credential of [token, jwt]) {
    for (const { endpoint, ask, title } of requestsOf(a)) {
      requests++
      const { status } = await service.call(endpoint.method, ask.path, { token: credential, body: ask.body })
      expect(status, title).toBe(404)
    }
    const { body } = await service.call('GET', '/v1/workspace', { token: credential })
    expect(body).toMatchObject([{ slug: 'gamma' }])
  }
  expect((await service.call('GET', '/v1/workspace/main', { token: both.session })).status).toBe(200)
})

test('the same slug in two tenants gives each its own project', async () => {
  for (const { credentials, world } of [a, b]) {
    for (const credential of credentialNames) {
      const path = `/v1/workspace/${world.slug}/project/right`
      const { body } = await service.call('GET', path, { token: credentials[credential] })
      expect(body).toMatchObject({ id: world.projects.right, teamId: world.teams.right })
    }
  }
})

test('a slug that only another tenant has is not found', async () => {
  const token = b.credentials.session
  const theirs = await service.call('GET', '/v1/workspace/beta/project/only-a', { token })
  const nobodys = await service.call('GET', `/v1/workspace/beta/project/${absentSlug}`, { token })
  expect(theirs.status).toBe(404)
  expect(visible(theirs)).toEqual(visible(nobodys))
})

test('a cursor from the audit log of one tenant reveals none of it in another', async () => {
  const first = await service.call('GET', '/v1/workspace/main/audit?limit=1', { token: a.credentials.session })
  const cursor = first.headers.get('x-next-cursor')
  expect(cursor).not.toBeNull()
  const path = `/v1/workspace/beta/audit?limit=200&cursor=${cursor}`
  const { text } = await service.call('GET', path, { token: b.credentials.session })
  const theirs = [a.world.workspaceId, a.owner.id, a.owner.email, ...counterparts().map((pair) => pair.theirs)]
  expect(theirs.filter((id) => text.includes(id))).toEqual([])
})

test('an audit filter by people, text or requests of another tenant finds nothing', async () => {
  const token = a.credentials.session
  const { body } = await service.call<{ requestId: string }[]>('GET', '/v1/workspace/main/audit?limit=1', { token })
  for (const filter of [
    `actor=${a.owner.id}`,
    `actor=${encodeURIComponent(a.owner.email)}`,
    `entity=${a.world.workspaceId}`,
    `q=${a.world.teams.right}`,
    `q=${body[0]?.requestId}`,
    'q=only-a',
  ]) {
    const found = await service.call('GET', `/v1/workspace/beta/audit?${filter}`, { token: b.credentials.session })
    expect(found, filter).toMatchObject({ status: 200, body: [] })
  }
})
