/** Forged, malformed and misplaced credentials: each gets the same response as no credential. */
import { request as httpRequest } from 'node:http'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { forgeJwts } from '../../../../test/jwt-forgery.ts'
import { newKey } from '../../crypto/envelope.ts'
import { newId } from '../../crypto/id.ts'
import { type JwtClaims, signJwt } from '../../crypto/jwt.ts'
import { createRootKey, masterWrapKey } from '../../crypto/keyring.ts'
import { createSigningKey, openSigningKey } from '../../crypto/signing.ts'
import { createBearer, sessionPrefix, tokenPrefix } from '../../crypto/token.ts'

let service: TestService
let owner: TestUser
let token: IssuedToken
let jwt: string
let mainId: string

const refusal = JSON.stringify({
  message: 'A valid credential is required: send "Authorization: Bearer <token>".',
})
const routes = ['/v1/me', '/v1/workspace'] as const

beforeAll(async () => {
  service = await startService({
    COFFER_EXCHANGE_RATE_LIMIT: '0',
    COFFER_TRUSTED_PROXIES: '127.0.0.1/32',
    COFFER_SIGNUP: 'open',
  })
  owner = await registerOwner(service)
  token = await createToken(service, owner.session)
  jwt = await exchange(service, token.token)
  const me = await service.call<{ credential: { workspaceId: string } }>('GET', '/v1/me', { token: token.token })
  mainId = me.body.credential.workspaceId
})
afterAll(() => service.stop())
afterEach(() => {
  vi.useRealTimers()
  service.clock.offsetMs = 0
})

async function expectRefused(options: { token?: string; headers?: Record<string, string> }): Promise<void> {
  for (const route of routes) {
    const answer = await service.call('GET', route, options)
    expect({ status: answer.status, text: answer.text }).toEqual({ status: 401, text: refusal })
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(answer.headers.get('set-cookie')).toBeNull()
  }
}

async function statusOf(value: string, headers: Record<string, string> = {}): Promise<number> {
  const statuses = new Set<number>()
  for (const route of routes) statuses.add((await service.call('GET', route, { token: value, headers })).status)
  expect(statuses.size).toBe(1)
  return [...statuses][0] ?? 0
}

/** Sends the header unchanged: `fetch` would normalise it. */
function sendRaw(path: string, ...authorization: string[]): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = authorization.flatMap((value) => ['authorization', value])
    const call = httpRequest(
      service.url + path,
      { headers: ['host', 'localhost', ...headers], agent: false },
      (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString() }))
      },
    )
    call.on('error', reject)
    call.end()
  })
}

const claimsOf = (value: string): JwtClaims =>
  JSON.parse(Buffer.from(value.split('.')[1] ?? '', 'base64url').toString())

/** A JWT with changed claims, signed with the real key of the service. */
const signed = (change: Partial<JwtClaims>) =>
  signJwt(service.app.services.keys.signer('jwt'), { ...claimsOf(jwt), ...change })

describe('a valid credential is accepted', () => {
  test.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('with the scheme %s', async (scheme) => {
    for (const value of [token.token, jwt, owner.session]) {
      for (const route of routes) {
        const answer = await service.call('GET', route, { headers: { authorization: `${scheme} ${value}` } })
        expect(answer.status).toBe(200)
      }
    }
  })
})

describe('the same response as without a credential is sent for', () => {
  test('no credential', () => expectRefused({}))

  test.each<[string, (value: string) => string]>([
    ['an empty header', () => ''],
    ['only the scheme', () => 'Bearer'],
    ['the scheme and a space', () => 'Bearer '],
    ['only the value', (value) => value],
    ['no space after the scheme', (value) => `Bearer${value}`],
    ['a tab after the scheme', (value) => `Bearer\t${value}`],
    ['a colon after the scheme', (value) => `Bearer: ${value}`],
    ['the scheme Basic', (value) => `Basic ${value}`],
    ['Basic with the value as password', (value) => `Basic ${Buffer.from(`user:${value}`).toString('base64')}`],
    ['Basic with the value as user', (value) => `Basic ${Buffer.from(`${value}:`).toString('base64')}`],
    ['the scheme Token', (value) => `Token ${value}`],
    ['the scheme Digest', (value) => `Digest username="${value}"`],
    ['the scheme twice', (value) => `Bearer Bearer ${value}`],
    ['quotes', (value) => `Bearer "${value}"`],
    ['a space inside the value', (value) => `Bearer ${value.slice(0, 12)} ${value.slice(12)}`],
    ['a word after the value', (value) => `Bearer ${value} x`],
    ['a comma after the value', (value) => `Bearer ${value},`],
    ['two values in one header', (value) => `Bearer ${value}, Bearer ${value}`],
    ['two values without a scheme between', (value) => `Bearer ${value},${value}`],
    ['another prefix', (value) => `Bearer ${value.replace(/^cof_\w{4}_|^ey/, 'cof_test_')}`],
    ['no prefix', (value) => `Bearer ${value.replace(/^cof_\w{4}_|^ey/, '')}`],
    ['upper case', (value) => `Bearer ${value.toUpperCase()}`],
    ['one missing character', (value) => `Bearer ${value.slice(0, -1)}`],
    ['one extra character', (value) => `Bearer ${value}A`],
    ['missing first characters', (value) => `Bearer ${value.slice(2)}`],
    ['percent encoding', (value) => `Bearer %${value.charCodeAt(0).toString(16)}${value.slice(1)}`],
    ['a character outside ASCII', (value) => `Bearer ${value}\u00e9`],
    ['a no-break space after the scheme', (value) => `Bearer\u00a0${value}`],
    ['a value of 10 kB', (value) => `Bearer ${value}${'A'.repeat(10_000)}`],
    ['10 kB of spaces', (value) => `Bearer ${' '.repeat(10_000)}${value}`],
  ])('%s', async (_what, spell) => {
    for (const value of [token.token, owner.session, jwt]) {
      await expectRefused({ headers: { authorization: spell(value) } })
    }
  })

  test('a wrong checksum', async () => {
    for (const value of [token.token, owner.session]) {
      for (let at = value.length - 6; at < value.length; at++) {
        const other = value.charAt(at) === '0' ? '1' : '0'
        await expectRefused({ token: value.slice(0, at) + other + value.slice(at + 1) })
      }
    }
  })

  test.each([tokenPrefix, sessionPrefix] as const)('a well-formed %s value that was never issued', async (prefix) => {
    await expectRefused({ token: createBearer(prefix) })
  })

  test('a token with the prefix of a session, and the reverse', async () => {
    await expectRefused({ token: token.token.replace(tokenPrefix, sessionPrefix) })
    await expectRefused({ token: owner.session.replace(sessionPrefix, tokenPrefix) })
  })

  test('two Authorization headers, even if both are valid', async () => {
    for (const pair of [
      [`Bearer ${createBearer(tokenPrefix)}`, `Bearer ${token.token}`],
      [`Bearer ${token.token}`, `Bearer ${createBearer(tokenPrefix)}`],
      [`Bearer ${token.token}`, `Bearer ${owner.session}`],
      [`Bearer ${token.token}`, `Bearer ${token.token}`],
    ]) {
      for (const route of routes) expect(await sendRaw(route, ...pair)).toEqual({ status: 401, text: refusal })
    }
  })

  test('invalid bytes', async () => {
    const value = Buffer.from(`Bearer \xff\xfe${token.token}`, 'latin1').toString('latin1')
    for (const route of routes) expect(await sendRaw(route, value)).toEqual({ status: 401, text: refusal })
  })

  test('a credential in the query, the body or another header', async () => {
    for (const route of routes) {
      const query = await service.call('GET', `${route}?access_token=${token.token}&token=${token.token}`)
      expect({ status: query.status, text: query.text }).toEqual({ status: 401, text: refusal })
    }
    await expectRefused({ headers: { 'x-api-key': token.token, 'x-auth-token': token.token } })
    await expectRefused({ headers: { 'proxy-authorization': `Bearer ${token.token}` } })
  })

  test('a token or a JWT in the cookie, and a session cookie from another site', async () => {
    const from = { 'sec-fetch-site': 'same-origin' }
    for (const value of [token.token, jwt]) {
      await expectRefused({ headers: { ...from, cookie: `__Host-coffer_session=${value}` } })
    }
    const cookie = `__Host-coffer_session=${owner.session}`
    await expectRefused({ headers: { cookie } })
    await expectRefused({ headers: { cookie, 'sec-fetch-site': 'same-site' } })
    await expectRefused({ headers: { cookie, 'sec-fetch-site': 'cross-site' } })
    await expectRefused({ headers: { cookie, 'sec-fetch-site': 'none' } })
    await expectRefused({ headers: { cookie, origin: 'https://evil.example' } })
    await expectRefused({ headers: { cookie, origin: 'null' } })
    await expectRefused({ headers: { ...from, cookie: `coffer_session=${owner.session}` } })
    await expectRefused({ headers: { ...from, cookie, authorization: 'Bearer x' } })
    for (const route of routes) {
      expect((await service.call('GET', route, { headers: { ...from, cookie } })).status).toBe(200)
    }
  })
})

describe('a forged JWT is refused like any other credential:', () => {
  test('the whole corpus', async () => {
    const forgeries = forgeJwts(service.app.services.keys.signer('jwt'), claimsOf(jwt))
    expect(forgeries.length).toBeGreaterThan(150)
    for (const [name, forged] of forgeries) {
      for (const route of routes) {
        const answer = await service.call('GET', route, { token: forged })
        expect({ name, status: answer.status, text: answer.text }).toEqual({ name, status: 401, text: refusal })
        expect(answer.headers.get('www-authenticate')).toBe('Bearer')
      }
    }
    expect(await statusOf(jwt)).toBe(200)
  })

  test('of another installation, with its own key id or with ours', async () => {
    const root = createRootKey(newId(), masterWrapKey(newKey())).root
    const stranger = openSigningKey(createSigningKey(newId(), 'jwt', root), root)
    await expectRefused({ token: signJwt(stranger, claimsOf(jwt)) })
    await expectRefused({
      token: signJwt({ ...stranger, id: service.app.services.keys.signer('jwt').id }, claimsOf(jwt)),
    })
  })

  test('signed with the key of the audit trail', async () => {
    await expectRefused({ token: signJwt(service.app.services.keys.signer('audit'), claimsOf(jwt)) })
  })

  test('with a token of another workspace, or with another workspace', async () => {
    const made = await service.call<{ id: string }>('POST', '/v1/workspace', {
      token: owner.session,
      body: { name: 'Elsewhere', slug: 'elsewhere' },
    })
    const foreign = await createToken(service, owner.session, {}, 'elsewhere')
    await expectRefused({ token: signed({ sub: foreign.id }) })
    await expectRefused({ token: signed({ workspace: made.body.id }) })
    expect(await statusOf(signed({ sub: foreign.id, workspace: made.body.id }))).toBe(200)
  })

  test('with the id of a user or a workspace as its subject', async () => {
    await expectRefused({ token: signed({ sub: owner.id }) })
    await expectRefused({ token: signed({ sub: mainId }) })
  })

  test('neither a JWT nor a session can be exchanged for a JWT', async () => {
    for (const value of [jwt, owner.session]) {
      const answer = await service.call('POST', '/v1/auth/exchange', { token: value })
      expect(answer.status).toBe(403)
    }
  })
})
