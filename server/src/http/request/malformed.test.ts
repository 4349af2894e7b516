/** Malformed requests get a response of the contract: no 5xx, no hang, no way around the hooks. */
import { endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  engine,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import {
  bodySchema,
  deadCredentials,
  hostileRequest,
  validBody,
  validPath,
  type World,
} from '../../../../test/hostile-request.ts'
import { prototypeNames, toJson, unknownNames } from '../../../../test/hostile-value.ts'
import { createIdentity } from '../../../../test/issuer.ts'
import { times } from '../../../../test/tier.ts'
import { withinSeconds } from '../../../../test/wait.ts'

let service: TestService
let owner: TestUser
/** A workspace for requests that are all rejected. */
let shared: OwnWorkspace

beforeAll(async () => {
  service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '0' }, offline)
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
  shared = await createWorld('shared')
})
afterAll(() => service.stop())

// An internal error is logged even if the connection closes before the response.
afterEach(() => {
  const failures = service.logs.splice(0).filter((line) => line.includes('"level":"error"'))
  expect(failures).toEqual([])
})

const table: [string, Endpoint][] = Object.entries(endpoints)
const withBody = table.filter(([, { method }]) => method !== 'GET')

type OwnWorkspace = { readonly world: World; readonly session: string; readonly readToken: string }

/** A workspace for one test to change, with an owner, a session and a read token. */
async function createWorld(slug: string): Promise<OwnWorkspace> {
  const { session } = await addUser(service, `${slug}@example.com`)
  const made = { token: session, body: { name: slug, slug } }
  const { body: workspace } = await service.call<{ id: string }>('POST', '/v1/workspace', made)
  const project = await createProject(service, session, 'api', { workspace: slug })
  const spare = await createToken(service, session, {}, slug)
  const { token: readToken } = await createToken(service, session, { permission: 'read' }, slug)
  const identity = await createIdentity(service, session, { issuer: 'https://issuer.example.com', subject: 's' }, slug)
  const environments = project.environments.map(({ id }) => id)
  const secrets = ['FIRST', 'SECOND'].map((key) => ({ key, value: key }))
  const body = { environments, secrets }
  await service.call('POST', `/v1/workspace/${slug}/project/api/secret`, { token: session, body })
  const newShare = { content: 'a shared text', expiresIn: 300, maxViews: 100 }
  const { body: share } = await service.call<{ token: string }>(
    'POST',
    `/v1/workspace/${slug}/project/api/secret-share`,
    { token: session, body: newShare },
  )
  const started = await service.call<{ syncConfigId: string }>('POST', '/v1/sync/heroku/start', {
    token: session,
    body: { projectId: project.id },
  })
  const world = {
    slug: ['heroku', 'webhook'],
    runId: [started.body.syncConfigId],
    token: [share.token],
    ws: [slug, workspace.id],
    prj: ['api', project.id],
    environmentId: environments,
    id: [project.teamId, spare.id, project.id, identity.id, started.body.syncConfigId],
    key: ['FIRST', 'SECOND'],
    version: ['1', '2'],
    revision: ['0', '1'],
  }
  return { world, session, readToken }
}

const ajv = new Ajv({ strict: false })

/** Whether the schema of the endpoint rejects this body, according to another validator than the server's. */
function isRefused(endpoint: Endpoint, text: string | undefined): boolean {
  if (endpoint.method === 'GET') return false
  if (text === undefined || text.trim() === '') return !ajv.validate(bodySchema(endpoint), {})
  try {
    return !ajv.validate(bodySchema(endpoint), JSON.parse(text))
  } catch {
    return true
  }
}

describe('generated requests', () => {
  /** Slow requests get fewer runs; the test fails if not even the first run ends in time. */
  const interruptAfterTimeLimit = 20_000
  /** Most requests are refused before they reach the store: on the second engine, fewer are enough. */
  const deepRuns = engine === 'sqlite' ? 10 : 5

  test.each(table)('%s responds within the contract to any request', async (name, endpoint) => {
    const { world, session, readToken } = await createWorld(`w-${name.toLowerCase()}`)
    // Checking a password is slow by design, also a wrong one.
    const runs = name === 'login' ? times(1, 5) : times(1, deepRuns)
    for (const token of [session, readToken]) {
      await fc.assert(
        fc.asyncProperty(
          fc.array(hostileRequest(endpoint, world), { minLength: 10, maxLength: 10 }),
          async (requests) => {
            await Promise.all(
              requests.map(async ({ path, body }) => {
                const answer = await withinSeconds(120, service.call(endpoint.method, path, { token, body }))
                expect(answer.status, `${endpoint.method} ${path} ${body?.slice(0, 200)}`).toBeLessThan(500)
                if (isRefused(endpoint, body)) expect([400, 401, 404]).toContain(answer.status)
              }),
            )
          },
        ),
        { numRuns: runs, interruptAfterTimeLimit },
      )
    }
    expect(Object.hasOwn(Object.prototype, 'isAdmin')).toBe(false)
  })

  test.each(withBody)('%s rejects an unknown field by its name', async (_name, endpoint) => {
    const { world, session, readToken } = shared
    const request = fc.record({
      path: validPath(endpoint, world),
      body: validBody(endpoint),
      field: fc.constantFrom(...unknownNames),
      token: fc.constantFrom(session, readToken),
    })
    await fc.assert(
      fc.asyncProperty(request, async ({ path, body, field, token }) => {
        const answer = await service.call(endpoint.method, path, { token, body: toJson({ ...body, [field]: 1 }) })
        const message = `${field.slice(0, 100)}: is not a known field.`
        expect(answer).toMatchObject({ status: 400, body: { message } })
      }),
      { numRuns: times(2, deepRuns + 10), interruptAfterTimeLimit },
    )
  })

  test.each(withBody)('%s rejects names of the prototype like any unknown field', async (_name, endpoint) => {
    const { world, session } = shared
    const [path] = fc.sample(validPath(endpoint, world), 1)
    const [body = {}] = fc.sample(validBody(endpoint), 1)
    for (const field of prototypeNames) {
      const text = toJson(Object.fromEntries([...Object.entries(body), [field, { prototype: { isAdmin: true } }]]))
      const answer = await service.call(endpoint.method, path ?? '', { token: session, body: text })
      expect(answer).toMatchObject({ status: 400, body: { message: `${field}: is not a known field.` } })
    }
  })

  test.each(table.filter(([, { permission }]) => permission !== 'public'))(
    '%s rejects every invalid credential',
    async (_name, endpoint) => {
      const path = endpoint.path.replace(':environmentId', owner.id).replace(':id', owner.id).replace(/:\w+/g, 'main')
      for (const authorization of deadCredentials) {
        const answer = await service.call(endpoint.method, path, { headers: { authorization } })
        expect(answer.status, authorization.slice(0, 100)).toBe(401)
      }
      expect((await service.call(endpoint.method, path)).status).toBe(401)
    },
  )

  test.each([
    ['an unknown field inside an object', { workspace: { name: 'X', slug: 'xx', colour: 'red' } }, 'workspace.colour'],
    ['an unknown field at the top level', { colour: 'red' }, 'colour'],
  ])('the error for %s has its full path', async (_what, extra, field) => {
    const body = { email: 'new@example.com', name: 'New', password, ...extra }
    const answer = await service.call('POST', '/v1/auth/register', { body })
    expect(answer).toMatchObject({ status: 400, body: { message: `${field}: is not a known field.` } })
  })

  test('unknown query parameters are ignored', async () => {
    const path = '/v1/me?extra=1&__proto__=2&constructor[prototype]=3&a=1&a=2&%00'
    expect((await service.call('GET', path, { token: owner.session })).status).toBe(200)
  })

  test.each([
    ['a cursor that is not a number', `cursor=${Buffer.from('abc').toString('base64url')}`, [400]],
    ['a hexadecimal cursor', `cursor=${Buffer.from('0x10').toString('base64url')}`, [400]],
    ['a leap second', 'from=2016-12-31T23:59:60Z', [200, 400]],
    ['the year 0', 'from=0000-01-01T00:00:00Z&to=0000-01-01T00:00:00Z', [200]],
    ['a time in another zone', 'from=2020-01-01T00:00:00%2B14:00', [200]],
    ['a space instead of the T', 'from=2020-01-01%2000:00:00Z', [200, 400]],
    ['a line break instead of the T', 'to=2020-01-01%0A00:00:00Z', [200, 400]],
    ['the wildcards of SQL like', 'q=%25_%5C', [200]],
    ['a lone surrogate', 'q=%ED%A0%80', [200, 400]],
  ])('the audit list handles %s', async (_what, search, statuses) => {
    const answer = await service.call('GET', `/v1/workspace/main/audit?${search}`, { token: owner.session })
    expect(statuses, answer.text).toContain(answer.status)
  })

  test('a cursor far beyond the end of the audit trail gets a response at once', async () => {
    const alone = await startService()
    const { session } = await registerOwner(alone)
    const cursor = Buffer.from(String(Number.MAX_SAFE_INTEGER)).toString('base64url')
    const work = alone.call('GET', `/v1/workspace/main/audit?cursor=${cursor}`, { token: session })
    try {
      expect((await withinSeconds(120, work)).status).toBe(200)
    } finally {
      // An endless search ends only when the store is closed and its connection is destroyed.
      alone.app.server.closeAllConnections()
      await work.catch(() => undefined)
      await alone.app.services.engine.close()
      await alone.stop().catch(() => undefined)
    }
  })
})
