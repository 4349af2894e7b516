/** Fetching the keys of an issuer: only for trusted issuers, and no more often than needed. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import {
  createIdentity,
  createKey,
  federate,
  loopbackAllowed,
  signatureProblem,
  startIssuer,
  type TestIdentity,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

let service: TestService
let owner: TestUser
let issuer: TestIssuer
let identity: TestIdentity

const now = () => service.app.services.now()
const minuteMs = 60_000

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const problem = (token: string) => signatureProblem(service, owner.session, identity.id, token)

describe('the keys of an issuer', () => {
  beforeEach(async () => {
    // The clock is frozen, so that a slow test does not cross the ten minutes.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
    issuer = await startIssuer(now)
    identity = await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'somebody' })
  })
  afterEach(async () => {
    vi.useRealTimers()
    await issuer.stop()
  })

  test('are fetched once for many concurrent requests', async () => {
    const token = await issuer.sign()
    const answers = await Promise.all(Array.from({ length: 40 }, () => tryFederation(service, token)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(issuer.requests).toEqual(['/.well-known/openid-configuration', '/keys'])
  })

  test('are not fetched for a disabled identity, or for a workspace without one', async () => {
    const token = await issuer.sign()
    await service.call('PUT', `/v1/workspace/main/oidc/${identity.id}`, {
      token: owner.session,
      body: { enabled: false },
    })
    expect((await tryFederation(service, token)).status).toBe(401)
    const slug = `other-${issuer.url.split(':').at(-1)}`
    await service.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Other', slug } })
    expect((await tryFederation(service, token, slug)).status).toBe(401)
    expect(issuer.requests).toEqual([])
  })

  test('are fetched again for an unknown key id, once a minute at most', async () => {
    await federate(service, await issuer.sign())
    expect(issuer.requests).toHaveLength(2)
    const next = await createKey('ES256', 'second')
    issuer.keys.push(next.jwk)
    const token = await issuer.sign({}, {}, next)
    const rotated = await Promise.all(Array.from({ length: 20 }, () => tryFederation(service, token)))
    expect(new Set(rotated.map(({ status }) => status))).toEqual(new Set([200]))
    expect(issuer.requests).toHaveLength(4)
    const third = await createKey('ES256', 'third')
    issuer.keys.push(third.jwk)
    expect((await tryFederation(service, await issuer.sign({}, {}, third))).status).toBe(401)
    expect(issuer.requests).toHaveLength(4)
    const stranger = await createKey('ES256', 'never')
    const unknown = await issuer.sign({}, {}, stranger)
    service.clock.offsetMs += minuteMs
    await Promise.all(Array.from({ length: 20 }, () => tryFederation(service, unknown)))
    await tryFederation(service, unknown)
    expect(issuer.requests).toHaveLength(6)
    expect(await problem(unknown)).toBe('the issuer has no key that matches the kid and the algorithm')
    await federate(service, await issuer.sign())
  })

  test('are fetched again once if the very first token has an unknown key id', async () => {
    const unknown = await issuer.sign({}, {}, await createKey('ES256', 'never'))
    expect((await tryFederation(service, unknown)).status).toBe(401)
    expect(issuer.requests).toHaveLength(2)
    expect((await tryFederation(service, unknown)).status).toBe(401)
    expect((await tryFederation(service, unknown)).status).toBe(401)
    expect(issuer.requests).toHaveLength(4)
  })

  test('are refused ten minutes after the issuer removed them', async () => {
    await federate(service, await issuer.sign())
    const next = await createKey('ES256', 'second')
    issuer.keys.splice(0, 1, next.jwk)
    service.clock.offsetMs += 10 * minuteMs - 1_000
    await federate(service, await issuer.sign())
    service.clock.offsetMs += 1_000
    expect((await tryFederation(service, await issuer.sign())).status).toBe(401)
    await federate(service, await issuer.sign({}, {}, next))
  })

  test('stay valid for an hour while the issuer fails, and are fetched again once it responds', async () => {
    await federate(service, await issuer.sign())
    issuer.answer = (_request, response) => {
      response.writeHead(500).end()
      return true
    }
    service.clock.offsetMs += 59 * minuteMs
    await federate(service, await issuer.sign())
    service.clock.offsetMs += minuteMs
    const token = await issuer.sign()
    const before = issuer.requests.length
    expect((await tryFederation(service, token)).status).toBe(401)
    expect(await problem(token)).toBe('no keys: the request for its discovery document returned status 500.')
    expect((await tryFederation(service, token)).status).toBe(401)
    // A failed fetch is not repeated for ten seconds, whoever asks.
    expect(issuer.requests).toHaveLength(before + 1)
    issuer.answer = undefined
    expect((await tryFederation(service, token)).status).toBe(401)
    service.clock.offsetMs += 10_000
    await federate(service, await issuer.sign())
  })

  const json = (body: unknown) => ({ status: 200, body: JSON.stringify(body) })
  type Served = { status: number; body?: string; headers?: Record<string, string> }
  test.each<[string, () => Served, (() => Served) | undefined, RegExp]>([
    ['a missing discovery document', () => ({ status: 404 }), undefined, /discovery document.* 404/],
    ['a redirect', () => ({ status: 302, headers: { location: `${issuer.url}/x` } }), undefined, /redirect/],
    ['another issuer', () => json({ issuer: `${issuer.url}/`, jwks_uri: `${issuer.url}/keys` }), undefined, /another/],
    ['no issuer', () => json({ jwks_uri: `${issuer.url}/keys` }), undefined, /another issuer/],
    ['no jwks_uri', () => json({ issuer: issuer.url }), undefined, /no jwks_uri/],
    ['a malformed jwks_uri', () => json({ issuer: issuer.url, jwks_uri: 'keys' }), undefined, /valid URL/],
    ['a file as jwks_uri', () => json({ issuer: issuer.url, jwks_uri: 'file:///etc/x' }), undefined, /https/],
    ['a list as discovery document', () => json([]), undefined, /discovery document is not/],
    ['a discovery document that is not JSON', () => ({ status: 200, body: '<html>' }), undefined, /document is not/],
    ['a huge discovery document', () => json({ x: 'x'.repeat(200_000) }), undefined, /larger than 131072 bytes/],
    ['a missing JWKS', right, () => ({ status: 410 }), /JWKS.* 410/],
    ['a redirected JWKS', right, () => ({ status: 307, headers: { location: '/keys' } }), /redirect/],
    ['a JWKS without keys', right, () => json({}), /no list of keys/],
    ['an empty JWKS', right, () => json({ keys: [] }), /no key that matches/],
    [
      'a JWKS of malformed keys',
      right,
      () => json({ keys: [null, 1, {}, { kty: 'RSA', n: 1 }, []] }),
      /no key that matches/,
    ],
    ['a huge JWKS', right, () => json({ keys: ['x'.repeat(600_000)] }), /larger than 524288 bytes/],
    ['a key with missing fields', right, () => json({ keys: [{ kty: 'RSA', kid: 'first' }] }), /cannot be used/],
    [
      'a key of 65536 bits',
      right,
      () => json({ keys: [{ kty: 'RSA', kid: 'first', e: 'AQAB', n: 'w'.repeat(10_923) }] }),
      /no key that matches/,
    ],
  ])('are refused with %s, and an admin sees the reason', async (_what, discovery, keys, expected) => {
    issuer.answer = (request, response) => {
      const served = request.url === '/keys' ? keys?.() : discovery()
      if (!served) return false
      response.writeHead(served.status, served.headers).end(served.body)
      return true
    }
    const token = await issuer.sign()
    expect((await tryFederation(service, token)).status).toBe(401)
    expect(await problem(token)).toMatch(expected)
  })

  function right(): Served {
    return json({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` })
  }

  test('are not waited for without end if the issuer never responds', async () => {
    issuer.answer = () => true
    const token = await issuer.sign()
    const answers = await Promise.all(Array.from({ length: 5 }, () => tryFederation(service, token)))
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401])
    expect(issuer.requests).toHaveLength(1)
    expect(await problem(token)).toMatch(/did not answer in time/)
  })

  test('are missing if the issuer is unreachable', async () => {
    const token = await issuer.sign()
    await issuer.stop()
    expect((await tryFederation(service, token)).status).toBe(401)
    expect(await problem(token)).toMatch(/^no keys: 127\.0\.0\.1 could not be reached \(ECONNREFUSED\)/)
  })

  test('are found for an issuer with a path, with and without a trailing slash', async () => {
    for (const path of ['/realms/main', '/tenant/']) {
      const other = await startIssuer(now, { path })
      await createIdentity(service, owner.session, { issuer: other.url, subject: 'somebody' })
      await federate(service, await other.sign())
      expect(other.requests[0]).toBe(`${path.replace(/\/$/, '')}/.well-known/openid-configuration`)
      await other.stop()
    }
  })
})
