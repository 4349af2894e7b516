/** Expired, revoked, rotated and address-bound credentials. */
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  addUser,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { type JwtClaims, jwtLifetimeSeconds, signJwt } from '../../crypto/jwt.ts'
import { asOperator } from '../../domain/context.ts'
import { dayMs, hourMs } from '../../domain/time.ts'
import { rotateRoot } from '../../domain/workspace/key.ts'
import { storeOver } from '../../store/store.ts'

let service: TestService
let owner: TestUser
let token: IssuedToken
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
  const me = await service.call<{ credential: { workspaceId: string } }>('GET', '/v1/me', { token: token.token })
  mainId = me.body.credential.workspaceId
})
afterAll(() => service.stop())
afterEach(() => {
  vi.useRealTimers()
  service.clock.offsetMs = 0
})

/** Stops the clock of the service, so that tests can check expiry to the millisecond. */
function stopClock(): { at: number; moveTo(ms: number): void } {
  const at = Date.now()
  vi.useFakeTimers({ toFake: ['Date'], now: at })
  return { at, moveTo: (ms) => void vi.setSystemTime(ms) }
}

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

const claimsOf = (value: string): JwtClaims =>
  JSON.parse(Buffer.from(value.split('.')[1] ?? '', 'base64url').toString())

describe('a credential that has ended is refused on the very next request:', () => {
  test('a revoked token and its JWTs', async () => {
    const { id, token: value } = await createToken(service, owner.session)
    const itsJwt = await exchange(service, value)
    expect([await statusOf(value), await statusOf(itsJwt)]).toEqual([200, 200])
    expect((await service.call('DELETE', `/v1/workspace/main/tokens/${id}`, { token: owner.session })).status).toBe(200)
    await expectRefused({ token: value })
    await expectRefused({ token: itsJwt })
    expect((await service.call('POST', '/v1/auth/exchange', { token: value })).status).toBe(401)
  })

  test('a rotated token and its JWTs, while the new value works', async () => {
    const { id, token: value } = await createToken(service, owner.session)
    const itsJwt = await exchange(service, value)
    const rotated = await rotate(id, {})
    await expectRefused({ token: value })
    await expectRefused({ token: itsJwt })
    expect(await statusOf(rotated)).toBe(200)
    expect(await statusOf(await exchange(service, rotated))).toBe(200)
  })

  test('an expired token and its JWTs, to the millisecond', async () => {
    const clock = stopClock()
    const { token: value, expiresAt } = await createToken(service, owner.session, { expiresIn: '24h' })
    const end = Date.parse(expiresAt ?? '')
    expect(end).toBe(clock.at + 24 * hourMs)
    clock.moveTo(end - 1)
    expect(await statusOf(value)).toBe(200)
    const itsJwt = await exchange(service, value)
    expect(await statusOf(itsJwt)).toBe(200)
    clock.moveTo(end)
    await expectRefused({ token: value })
    await expectRefused({ token: itsJwt })
  })

  test('a JWT after 900 seconds', async () => {
    const clock = stopClock()
    const value = await exchange(service, token.token)
    const { iat, exp } = claimsOf(value)
    expect(exp - iat).toBe(900)
    clock.moveTo(exp * 1000 - 1)
    expect(await statusOf(value)).toBe(200)
    clock.moveTo(exp * 1000)
    await expectRefused({ token: value })
  })

  test('a token and its JWTs when its creator is no longer a member', async () => {
    const maker = await addUser(service, 'leaver@example.com', { workspaceId: mainId, role: 'developer' })
    const { token: value } = await createToken(service, maker.session)
    const itsJwt = await exchange(service, value)
    expect([await statusOf(value), await statusOf(itsJwt)]).toEqual([200, 200])
    await service.app.services.engine.transaction('test', async ({ db }) => {
      await storeOver(db, service.app.services.keys).members.remove(maker.memberId ?? '', mainId)
    })
    service.app.services.snapshots.drop(mainId)
    await expectRefused({ token: value })
    await expectRefused({ token: itsJwt })
  })
})

async function rotate(id: string, body: { graceSeconds?: number }): Promise<string> {
  const path = `/v1/workspace/main/tokens/${id}/rotate`
  const answer = await service.call<IssuedToken>('POST', path, { token: owner.session, body })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.token
}

describe('the grace period of a rotation', () => {
  test('keeps the old value and its JWTs valid until its last millisecond', async () => {
    const clock = stopClock()
    const { id, token: old } = await createToken(service, owner.session)
    const oldJwt = await exchange(service, old)
    const rotated = await rotate(id, { graceSeconds: 60 })
    const newJwt = await exchange(service, rotated)
    clock.moveTo(clock.at + 59_999)
    for (const value of [old, oldJwt, rotated, newJwt]) expect(await statusOf(value)).toBe(200)
    clock.moveTo(clock.at + 60_000)
    await expectRefused({ token: old })
    await expectRefused({ token: oldJwt })
    for (const value of [rotated, newJwt]) expect(await statusOf(value)).toBe(200)
    service.app.services.credentials.clear()
    service.app.services.snapshots.clear()
    await expectRefused({ token: old })
    await expectRefused({ token: oldJwt })
  })

  test('also ends a JWT that was exchanged for the old value within it', async () => {
    const clock = stopClock()
    const { id, token: old } = await createToken(service, owner.session)
    await rotate(id, { graceSeconds: 60 })
    clock.moveTo(clock.at + 30_000)
    const late = await exchange(service, old)
    expect(await statusOf(late)).toBe(200)
    clock.moveTo(clock.at + 60_000)
    await expectRefused({ token: late })
  })

  test('ends early with a second rotation: only one old value is valid at a time', async () => {
    const { id, token: first } = await createToken(service, owner.session)
    const firstJwt = await exchange(service, first)
    const second = await rotate(id, { graceSeconds: 600 })
    const secondJwt = await exchange(service, second)
    const third = await rotate(id, { graceSeconds: 600 })
    await expectRefused({ token: first })
    await expectRefused({ token: firstJwt })
    for (const value of [second, secondJwt, third]) expect(await statusOf(value)).toBe(200)
    const fourth = await rotate(id, {})
    for (const value of [second, secondJwt, third]) await expectRefused({ token: value })
    expect(await statusOf(fourth)).toBe(200)
  })

  test('ends at once when the token is revoked', async () => {
    const { id, token: old } = await createToken(service, owner.session)
    const oldJwt = await exchange(service, old)
    const rotated = await rotate(id, { graceSeconds: 600 })
    await service.call('DELETE', `/v1/workspace/main/tokens/${id}`, { token: owner.session })
    for (const value of [old, oldJwt, rotated]) await expectRefused({ token: value })
  })

  test('does not outlive the token itself', async () => {
    const clock = stopClock()
    const { id, token: old } = await createToken(service, owner.session, { expiresIn: '24h' })
    clock.moveTo(clock.at + 11 * hourMs)
    await service.call('GET', '/v1/me', { token: owner.session })
    clock.moveTo(clock.at + 22 * hourMs)
    await rotate(id, { graceSeconds: 86_400 })
    clock.moveTo(clock.at + 24 * hourMs - 1)
    expect(await statusOf(old)).toBe(200)
    clock.moveTo(clock.at + 24 * hourMs)
    await expectRefused({ token: old })
  })
})

describe('a token restricted to addresses', () => {
  const from = (ip: string) => ({ 'x-forwarded-for': ip })

  test.each<[string[], string[], string[]]>([
    [
      ['10.1.0.0/16'],
      ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3'],
      ['10.2.0.0', '10.0.255.255', '::1', '127.0.0.1'],
    ],
    [['192.0.2.7'], ['192.0.2.7'], ['192.0.2.8', '192.0.2.6', '2001:db8::7']],
    [
      ['2001:db8::/32', '198.51.100.0/24'],
      ['2001:db8:ffff::1', '198.51.100.9'],
      ['2001:db9::1', '198.51.101.9'],
    ],
  ])('%j works only from those addresses, and so do its JWTs', async (allowedIps, inside, outside) => {
    const { token: value } = await createToken(service, owner.session, { allowedIps })
    const answer = await service.call<{ accessToken: string }>('POST', '/v1/auth/exchange', {
      token: value,
      headers: from(inside[0] ?? ''),
    })
    expect(answer.status).toBe(200)
    for (const credential of [value, answer.body.accessToken]) {
      for (const ip of inside) expect(await statusOf(credential, from(ip)), ip).toBe(200)
      for (const ip of outside) await expectRefused({ token: credential, headers: from(ip) })
      await expectRefused({ token: credential })
    }
    const refused = await service.call('POST', '/v1/auth/exchange', { token: value, headers: from(outside[0] ?? '') })
    expect({ status: refused.status, text: refused.text }).toEqual({ status: 401, text: refusal })
  })

  test('is checked against the right-most address that is not a trusted proxy, not one that the client sent', async () => {
    const { token: value } = await createToken(service, owner.session, { allowedIps: ['10.1.0.0/16'] })
    await expectRefused({ token: value, headers: from('10.1.0.1, 203.0.113.9') })
    expect(await statusOf(value, from('203.0.113.9, 10.1.0.1'))).toBe(200)
    expect(await statusOf(value, from('10.1.0.1, 127.0.0.1'))).toBe(200)
    for (const nonsense of ['unknown', '10.1.0.1:80x', '', '10.1.0', '0x0a.1.0.1', "10.1.0.1'"]) {
      await expectRefused({ token: value, headers: from(nonsense) })
    }
  })
})

describe('a session', () => {
  async function logIn(): Promise<string> {
    const answer = await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    expect(answer.status).toBe(200)
    return answer.body.accessToken
  }

  test.each([false, true])('expires after 12 idle hours, to the millisecond (cache cleared: %s)', async (drops) => {
    const clock = stopClock()
    const value = await logIn()
    const unused = await logIn()
    clock.moveTo(clock.at + 12 * hourMs - 1)
    expect(await statusOf(value)).toBe(200)
    clock.moveTo(clock.at + 12 * hourMs)
    expect(await statusOf(value)).toBe(200)
    await expectRefused({ token: unused })
    clock.moveTo(clock.at + 24 * hourMs - 1)
    expect(await statusOf(value)).toBe(200)
    clock.moveTo(clock.at + 36 * hourMs - 1)
    if (drops) service.app.services.credentials.clear()
    await expectRefused({ token: value })
    clock.moveTo(clock.at + 36 * hourMs)
    await expectRefused({ token: value })
  })

  test('expires after 30 days even if it is used constantly', async () => {
    const clock = stopClock()
    const value = await logIn()
    for (let hours = 10; hours < 30 * 24; hours += 10) {
      clock.moveTo(clock.at + hours * hourMs)
      expect((await service.call('GET', '/v1/me', { token: value })).status).toBe(200)
    }
    clock.moveTo(clock.at + 30 * dayMs - 1)
    expect(await statusOf(value)).toBe(200)
    clock.moveTo(clock.at + 30 * dayMs)
    await expectRefused({ token: value })
  })

  test('ends at logout, on the next request, and other sessions of the person stay valid', async () => {
    const [one, other] = [await logIn(), await logIn()]
    expect((await service.call('POST', '/v1/auth/logout', { token: one })).status).toBe(200)
    await expectRefused({ token: one })
    expect(await statusOf(other)).toBe(200)
    expect((await service.call('POST', '/v1/auth/logout', { token: one })).status).toBe(401)
  })
})

test('a JWT of a replaced signing key stays valid for its 900 seconds, and later signatures of the old key are rejected', async () => {
  const clock = stopClock()
  const before = await exchange(service, token.token)
  const retired = service.app.services.keys.signer('jwt')
  await rotateRoot(asOperator(service.app.services), () => undefined, 0)
  expect(service.app.services.keys.signer('jwt').id).not.toBe(retired.id)
  expect(await statusOf(before)).toBe(200)
  expect(await statusOf(token.token)).toBe(200)
  clock.moveTo(clock.at + (jwtLifetimeSeconds + 60) * 1000)
  const iat = Math.floor(Date.now() / 1000)
  await expectRefused({ token: signJwt(retired, { ...claimsOf(before), iat, exp: iat + jwtLifetimeSeconds }) })
})
