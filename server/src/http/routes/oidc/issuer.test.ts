/**
 * Fetching the keys of an issuer: through the outbound client, only for trusted issuers, no more often than needed, and
 * from no private address that the operator did not allow.
 */
import dns from 'node:dns/promises'
import { syncBuiltinESMExports } from 'node:module'
import { createServer, type Server } from 'node:net'
import type { IdentityVerdict } from '@coffer/contract/oidc'
import { SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import {
  createIdentity,
  createKey,
  federate,
  loopbackAllowed,
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

/** A token that names this issuer; its signature is never checked. */
async function tokenOf(iss: string): Promise<string> {
  const seconds = Math.floor(now() / 1000)
  const claims = { iss, aud: 'coffer', sub: 'somebody', iat: seconds, exp: seconds + 300 }
  const { privateKey } = await createKey('ES256', 'first')
  return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'first' }).sign(privateKey)
}

async function signatureProblem(on: TestService, session: string, id: string, token: string): Promise<string> {
  const path = `/v1/workspace/main/oidc/${id}/test`
  const { body } = await on.call<IdentityVerdict>('POST', path, { token: session, body: { token } })
  const check = body.checks.find((one) => one.check === 'signature')
  return check?.ok === false ? check.actual : ''
}
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

describe('no request goes to a private address', () => {
  let strict: TestService
  let strictOwner: TestUser
  let canary: Server
  let port = 0
  let connections = 0

  beforeAll(async () => {
    strict = await startService({ COFFER_OUTBOUND_ALLOW: '127.0.0.1' })
    strictOwner = await registerOwner(strict)
    canary = createServer((socket) => {
      connections++
      socket.destroy()
    })
    // Listens on every address of the machine, including all forms of loopback.
    await new Promise<void>((resolve) => void canary.listen(0, '::', resolve))
    const address = canary.address()
    port = typeof address === 'object' && address ? address.port : 0
  })
  afterAll(async () => {
    await strict.stop()
    await new Promise((resolve) => canary.close(resolve))
  })
  beforeEach(() => {
    connections = 0
  })

  async function refuse(on: TestService, session: string, iss: string): Promise<string> {
    const { id } = await createIdentity(on, session, { issuer: iss, subject: 'somebody' })
    const token = await tokenOf(iss)
    expect((await tryFederation(on, token)).status).toBe(401)
    return signatureProblem(on, session, id, token)
  }

  test.each([
    'https://127.0.0.2:PORT',
    'https://127.0.0.2.:PORT',
    'http://127.0.0.2:PORT',
    'https://2130706434:PORT',
    'https://0x7f000002:PORT',
    'https://0177.0.0.02:PORT',
    'https://127.2:PORT',
    'https://[::1]:PORT',
    'https://[0:0:0:0:0:0:0:1]:PORT',
    'https://[::ffff:127.0.0.2]:PORT',
    'https://[::ffff:7f00:2]:PORT',
    'https://[64:ff9b::127.0.0.2]:PORT',
    'https://0.0.0.0:PORT',
    'https://[::]:PORT',
    'https://１２７.0.0.2:PORT',
    'https://169.254.169.254',
    'http://169.254.169.254/latest',
    'https://2852039166',
    'https://[fd00:ec2::254]',
    'https://[::ffff:169.254.169.254]',
    'https://10.0.0.1',
    'https://172.16.0.1',
    'https://192.168.1.1',
    'https://100.64.0.1',
    'https://[fe80::1]',
    'https://[fc00::1]',
    'https://224.0.0.1',
    'https://255.255.255.255',
  ])('%s', async (spelling) => {
    const iss = spelling.replace('PORT', String(port))
    expect(await refuse(strict, strictOwner.session, iss)).toMatch(/refused: it has a private or reserved address/)
    expect(connections).toBe(0)
  })

  test('a host that the operator lists is allowed on any port and over plain http, its neighbours are not', async () => {
    const [listed, neighbour] = await Promise.all(
      ['127.0.0.1', '127.0.0.2'].map((host) => startIssuer(() => strict.app.services.now(), { host })),
    )
    if (!listed || !neighbour) throw new Error('two issuers are needed')
    for (const { url } of [listed, neighbour]) {
      await createIdentity(strict, strictOwner.session, { issuer: url, subject: 'somebody' })
    }
    await federate(strict, await listed.sign())
    expect((await tryFederation(strict, await neighbour.sign())).status).toBe(401)
    expect(neighbour.requests).toEqual([])
    await listed.stop()
    await neighbour.stop()
  })

  test.each(['redirects to a private address', 'has its keys at a private address'])(
    'an issuer that %s is refused',
    async (what) => {
      const luring = await startIssuer(() => strict.app.services.now())
      const target = `http://127.0.0.2:${port}/keys`
      luring.answer = (_request, response) => {
        if (what === 'redirects to a private address') response.writeHead(302, { location: target }).end()
        else response.writeHead(200).end(JSON.stringify({ issuer: luring.url, jwks_uri: target }))
        return true
      }
      expect(await refuse(strict, strictOwner.session, luring.url)).toMatch(/redirect|private or reserved/)
      expect(luring.requests).toHaveLength(1)
      expect(connections).toBe(0)
      await luring.stop()
    },
  )

  describe('through a host name', () => {
    const { lookup } = dns
    let answers: string[][] = []
    let asked: string[] = []

    beforeEach(() => {
      asked = []
      const fake = async (hostname: string) => {
        asked.push(hostname)
        const addresses = answers.length > 1 ? answers.shift() : answers[0]
        return (addresses ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
      }
      Object.assign(dns, { lookup: fake })
      syncBuiltinESMExports()
    })
    afterEach(() => {
      Object.assign(dns, { lookup })
      syncBuiltinESMExports()
    })

    test.each([
      ['loopback', ['127.0.0.2']],
      ['loopback in IPv6', ['::1']],
      ['mapped loopback', ['::ffff:127.0.0.2']],
      ['the cloud’s metadata', ['169.254.169.254']],
      ['a private address among public ones', ['93.184.216.34', '10.0.0.1', '2606:2800:220:1::1']],
    ])('resolving to %s', async (what, addresses) => {
      answers = [addresses]
      const iss = `https://${what.replaceAll(/[^a-z]/gi, '-')}.example.test:${port}`
      expect(await refuse(strict, strictOwner.session, iss)).toMatch(/refused: it has a private or reserved address/)
      expect(asked.length).toBeGreaterThan(0)
      expect(connections).toBe(0)
    })

    test('resolved once per fetch, so that a changed address is never connected to', async () => {
      // Public on the first lookup; a second lookup before connecting would reach the canary.
      answers = [['93.184.216.34'], ['127.0.0.2']]
      const iss = 'https://rebinding.example.test'
      const { id } = await createIdentity(strict, strictOwner.session, { issuer: iss, subject: 'somebody' })
      const token = await tokenOf(iss)
      expect((await tryFederation(strict, token)).status).toBe(401)
      expect(asked).toEqual(['rebinding.example.test'])
      // The next fetch resolves the name again, and gets the private address.
      strict.clock.offsetMs += minuteMs
      expect(await signatureProblem(strict, strictOwner.session, id, token)).toMatch(/private or reserved/)
      expect(asked).toHaveLength(2)
      expect(connections).toBe(0)
    })

    test('unless the operator lists this very name', async () => {
      const open = await startService({ COFFER_OUTBOUND_ALLOW: 'issuer.internal.example.test' })
      const { session } = await registerOwner(open)
      answers = [['127.0.0.1']]
      const real = await startIssuer(() => open.app.services.now())
      const named = real.url.replace('127.0.0.1', 'issuer.internal.example.test')
      const other = real.url.replace('127.0.0.1', 'other.internal.example.test')
      real.answer = (request, response) => {
        if (request.url === '/keys') return false
        response.end(JSON.stringify({ issuer: named, jwks_uri: `${named}/keys` }))
        return true
      }
      for (const url of [named, other]) await createIdentity(open, session, { issuer: url, subject: 'somebody' })
      await federate(open, await real.sign({ iss: named }))
      const before = real.requests.length
      expect((await tryFederation(open, await real.sign({ iss: other }))).status).toBe(401)
      expect(real.requests).toHaveLength(before)
      await real.stop()
      await open.stop()
    })
  })
})
