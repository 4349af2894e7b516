/** A token of an external issuer is exchanged for a JWT that has only the rights of the matching identity. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Me } from '@coffer/contract/me'
import type { Identity } from '@coffer/contract/oidc'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  type Claims,
  createIdentity,
  federate,
  loopbackAllowed,
  startIssuer,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

let service: TestService
let issuer: TestIssuer
let owner: TestUser
let project: TestProject
const list = '/v1/workspace/main/oidc'

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  issuer = await startIssuer(() => service.app.services.now())
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  const body = { environments: project.environments.map(({ id }) => id), secrets: [{ key: 'KEY', value: 'shared' }] }
  await service.call('POST', '/v1/workspace/main/project/api/secret', { token: owner.session, body })
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})

const environment = (index = 0) => project.environments[index]?.id ?? ''
const trust = (body: Readonly<Record<string, unknown>>) =>
  createIdentity(service, owner.session, { issuer: issuer.url, ...body })
const change = (id: string, body: unknown) =>
  service.call<Identity>('PUT', `${list}/${id}`, { token: owner.session, body })
const ask = (token: string, path: string) => service.call('GET', path, { token })

async function newest(filter = ''): Promise<AuditEntry | undefined> {
  const path = `/v1/workspace/main/audit?limit=1${filter}`
  const { body } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  return body[0]
}

describe('the exchange', () => {
  test('returns a JWT for 900 seconds that acts as the identity, with its permission and scope', async () => {
    const scope = { environments: [environment()] }
    const { id } = await trust({ name: 'one environment', subject: 'reader', scope })
    const answer = await tryFederation(service, await issuer.sign({ sub: 'reader', jti: 'run-1' }))
    expect(answer.body).toEqual({ accessToken: expect.any(String), expiresIn: 900, tokenType: 'Bearer' })
    const jwt = answer.body.accessToken
    const me = await service.call<Me>('GET', '/v1/me', { token: jwt })
    expect(me.body).toMatchObject({
      id,
      email: '',
      name: 'one environment',
      mfa: false,
      credential: { type: 'oidc', permission: 'read', scope: { all: false, environments: [environment()] } },
    })
    const lifeMs = Date.parse(me.body.credential.expiresAt ?? '') - service.app.services.now()
    expect(lifeMs).toBeGreaterThan(780_000)
    expect(lifeMs).toBeLessThanOrEqual(900_000)
    expect((await ask(jwt, '/v1/workspace')).body).toMatchObject([{ slug: 'main', role: 'member', isOwner: false }])
    const secrets = await service.call<Secret[]>('GET', '/v1/secrets', { token: jwt })
    expect(secrets.body).toMatchObject([{ name: 'KEY', values: [{ environmentId: environment(), value: 'shared' }] }])
    const other = `/v1/workspace/main/project/api/secret?environmentId=${environment(1)}`
    expect((await ask(jwt, other)).status).toBe(404)
    const body = { environmentId: environment(), value: 'written' }
    const write = await service.call('PUT', '/v1/workspace/main/project/api/secret/KEY/value', { token: jwt, body })
    expect(write.status).toBe(403)
    expect(await newest('&action=VIEW')).toMatchObject({ actor: { type: 'oidc', id, name: 'one environment' } })
    expect(await newest('&action=LOGIN')).toMatchObject({
      actor: { type: 'oidc', id },
      entity: { type: 'oidc', id, name: 'one environment' },
      outcome: 'success',
      after: { issuer: issuer.url, subject: 'reader', tokenId: 'run-1' },
    })
    expect((await ask(owner.session, `${list}/${id}`)).body).toMatchObject({ lastUsedAt: expect.any(String) })
  })

  test('with read-write permission allows writing secrets like a developer, and nothing that needs an admin', async () => {
    await trust({ name: 'writer', subject: 'writer', permission: 'read-write' })
    const token = await federate(service, await issuer.sign({ sub: 'writer' }))
    const path = '/v1/workspace/main/project/api'
    const body = { environmentId: environment(2), value: 'by an identity' }
    expect((await service.call('PUT', `${path}/secret/KEY/value`, { token, body })).status).toBe(200)
    const versions = await ask(token, `${path}/secret/KEY/version?environmentId=${environment(2)}`)
    expect(versions.body).toMatchObject([{ createdBy: 'writer' }, {}])
    expect((await service.call('POST', `${path}/environment`, { token, body: { name: 'fresh' } })).status).toBe(403)
    expect((await ask(token, list)).status).toBe(403)
    expect((await ask(token, '/v1/workspace/main/tokens')).body).toEqual([])
    expect((await service.call('POST', '/v1/auth/exchange', { token })).status).toBe(403)
    expect((await service.call('POST', '/v1/auth/logout', { token })).status).toBe(403)
  })

  test('gives no access to personal values', async () => {
    const path = '/v1/workspace/main/project/api'
    const { session } = owner
    const allow = { token: session, body: { hasPersonalOverrides: true } }
    await service.call('PUT', `${path}/environment/${environment()}`, allow)
    const own = { environmentId: environment(), value: 'only mine', isPersonal: true }
    expect((await service.call('PUT', `${path}/secret/KEY/value`, { token: session, body: own })).status).toBe(200)
    await trust({ name: 'curious', subject: 'curious', permission: 'read-write' })
    const token = await federate(service, await issuer.sign({ sub: 'curious' }))
    const { text } = await ask(token, `${path}/secret`)
    expect(text).toContain('shared')
    expect(text).not.toContain('only mine')
    expect((await service.call('PUT', `${path}/secret/KEY/value`, { token, body: own })).status).toBe(403)
  })

  test('keeps the responses to two identities apart', async () => {
    const path = '/v1/workspace/main/project/api/secret'
    const answers: string[] = []
    for (const index of [0, 1]) {
      await trust({ name: `part ${index}`, subject: `part ${index}`, scope: { environments: [environment(index)] } })
      const token = await federate(service, await issuer.sign({ sub: `part ${index}` }))
      for (const again of [1, 2]) {
        const { body } = await service.call<Secret[]>('GET', path, { token })
        const shown = body.flatMap(({ values }) => values.map(({ environmentId }) => environmentId))
        expect(shown, String(again)).toEqual([environment(index)])
        answers.push(shown.join())
      }
    }
    expect(new Set(answers).size).toBe(2)
  })

  test.each([
    ['disabled', { enabled: false }],
    ['given another permission', { permission: 'read-write' }],
    ['given another scope', { scope: { all: true } }],
    ['given another rule', { subject: 'ends otherwise' }],
    ['given another audience', { audience: 'another' }],
    ['given another issuer', { issuer: 'https://issuer.example.com' }],
    ['deleted', undefined],
  ])('gives a JWT that ends with the next request when the identity is %s', async (what, body) => {
    const scope = { environments: [environment()] }
    const { id } = await trust({ name: 'ending', subject: `ends ${what}`, scope })
    const jwt = await federate(service, await issuer.sign({ sub: `ends ${what}` }))
    expect((await ask(jwt, '/v1/me')).status).toBe(200)
    const method = body ? 'PUT' : 'DELETE'
    expect((await service.call(method, `${list}/${id}`, { token: owner.session, body })).status).toBe(200)
    expect((await ask(jwt, '/v1/me')).status).toBe(401)
    // Once enabled again, the identity gets new JWTs; the old one stays invalid.
    if (what === 'disabled') {
      expect((await tryFederation(service, await issuer.sign({ sub: 'ends disabled' }))).status).toBe(401)
      await change(id, { enabled: true })
      expect((await ask(jwt, '/v1/me')).status).toBe(401)
      expect((await tryFederation(service, await issuer.sign({ sub: 'ends disabled' }))).status).toBe(200)
    }
  })

  test('gives a JWT that stays valid when the identity is renamed', async () => {
    const { id } = await trust({ name: 'old name', subject: 'renamed' })
    const jwt = await federate(service, await issuer.sign({ sub: 'renamed' }))
    await change(id, { name: 'new name' })
    expect((await ask(jwt, '/v1/me')).body).toMatchObject({ name: 'new name' })
  })

  test('gives a JWT that expires after 900 seconds', async () => {
    await trust({ subject: 'late' })
    const { offsetMs } = service.clock
    // A JWT has whole seconds: the clock is frozen at the start of one.
    vi.useFakeTimers({ toFake: ['Date'], now: Math.ceil(Date.now() / 1000) * 1000 })
    try {
      const jwt = await federate(service, await issuer.sign({ sub: 'late' }))
      service.clock.offsetMs += 899_999
      const nearly = await ask(jwt, '/v1/me')
      service.clock.offsetMs += 1
      const over = await ask(jwt, '/v1/me')
      expect([nearly.status, over.status]).toEqual([200, 401])
    } finally {
      vi.useRealTimers()
      service.clock.offsetMs = offsetMs
    }
  })

  test('gives no access to another workspace with the same identity', async () => {
    await service.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Beta', slug: 'beta' } })
    await trust({ subject: 'twin' })
    await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'twin' }, 'beta')
    const jwt = await federate(service, await issuer.sign({ sub: 'twin' }), 'beta')
    expect((await ask(jwt, '/v1/workspace/beta')).status).toBe(200)
    expect((await ask(jwt, '/v1/workspace/main')).status).toBe(404)
    expect((await ask(jwt, '/v1/workspace')).body).toMatchObject([{ slug: 'beta' }])
  })

  test('accepts the workspace by id too, and refuses a malformed one', async () => {
    await trust({ subject: 'by id' })
    const { id } = (await ask(owner.session, '/v1/workspace/main')).body as { id: string }
    const token = await issuer.sign({ sub: 'by id' })
    expect((await tryFederation(service, token, id)).status).toBe(200)
    const wrong = await service.call('POST', '/v1/auth/oidc/exchange', { body: { token, workspaceId: 'No Slug' } })
    expect(wrong).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^workspaceId: /) } })
    const huge = { token: 'x'.repeat(16_385), workspaceId: 'main' }
    expect((await service.call('POST', '/v1/auth/oidc/exchange', { body: huge })).status).toBe(400)
  })

  test('succeeds for concurrent requests with the same token, and the audit trail verifies', async () => {
    await trust({ subject: 'many' })
    const token = await issuer.sign({ sub: 'many' })
    const answers = await Promise.all(Array.from({ length: 40 }, () => tryFederation(service, token)))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 200))
    expect((await ask(owner.session, '/v1/workspace/main/audit/verify')).body).toMatchObject({ ok: true })
  })

  test('leaves no valid JWT behind when the identity is disabled concurrently', async () => {
    const { id } = await trust({ subject: 'racing' })
    const token = await issuer.sign({ sub: 'racing' })
    const racing = Array.from({ length: 20 }, () => tryFederation(service, token))
    const [answers] = await Promise.all([Promise.all(racing), change(id, { enabled: false })])
    for (const { status, body } of answers) {
      if (status === 200) expect((await ask(body.accessToken, '/v1/me')).status).toBe(401)
    }
    expect((await tryFederation(service, token)).status).toBe(401)
  })
})

describe('among several matching identities', () => {
  async function admittedName(claims: Claims): Promise<string> {
    const jwt = await federate(service, await issuer.sign(claims))
    const me = (await ask(jwt, '/v1/me')).body as Me
    expect(await newest('&action=LOGIN')).toMatchObject({ entity: { id: me.id, name: me.name } })
    return me.name
  }

  test('an exact one wins over one with a star, then the newest, with only its own rights', async () => {
    const one = { environments: [environment()] }
    const first = await trust({ name: 'exact, older', subject: 'several', scope: one })
    const second = await trust({ name: 'exact, newer', subject: 'several', scope: { environments: [environment(1)] } })
    const third = await trust({ name: 'star, older', subject: 'sever*', permission: 'read-write' })
    const fourth = await trust({ name: 'star, newer', subject: 'several', claims: { ref: ['main', '*'] } })
    const claims = { sub: 'several', ref: 'main' }
    const order: string[] = []
    for (const { id } of [second, first, fourth, third]) {
      order.push(await admittedName(claims))
      await change(id, { enabled: false })
    }
    expect(order).toEqual(['exact, newer', 'exact, older', 'star, newer', 'star, older'])
    expect((await tryFederation(service, await issuer.sign(claims))).status).toBe(401)
  })

  test('one that fails a later check is skipped', async () => {
    await trust({ name: 'fits', subject: 'passed*' })
    await trust({ name: 'wrong audience', subject: 'passed over', audience: 'another' })
    await trust({ name: 'wrong claim', subject: 'passed over', claims: { ref: 'release' } })
    expect(await admittedName({ sub: 'passed over', ref: 'main' })).toBe('fits')
  })
})
