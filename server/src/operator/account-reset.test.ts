/** `account list` and `account reset-password`, run as an operator runs them, while the service runs. */

import type { AuditEntry } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../test/authenticator.ts'
import { runHere } from '../../../test/command.ts'
import {
  addUser,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { until } from '../../../test/wait.ts'
import { bearerKind, createBearer, resetPrefix } from '../crypto/token.ts'
import { systemChain } from '../domain/audit/event.ts'

const minute = 60_000
let service: TestService
let owner: TestUser
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const operate = (...args: string[]) => runHere(args, service.settings)

async function makeLink(email: string): Promise<string> {
  const { code, out, err } = await operate('account', 'reset-password', email)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const [, token = ''] = /^http:\/\/localhost:8080\/reset#(\w+)$/m.exec(out) ?? []
  expect(bearerKind(token)).toBe(resetPrefix)
  return token
}

const redeem = (token: string, next: string) =>
  service.call('POST', '/v1/auth/password/reset', { body: { token, password: next } })
const login = (email: string, given: string, code?: string) =>
  service.call<SignedIn>('POST', '/v1/auth/login', { body: { email, password: given, ...(code && { code }) } })
const isAlive = async (token: string) => (await service.call('GET', '/v1/me', { token })).status === 200
const unknownLink = {
  status: 404,
  body: {
    message: 'This link has expired, was already used or was replaced by a newer one: ask for a new one.',
  },
}

async function systemEvents(): Promise<unknown[]> {
  const raw = await openRaw(service)
  const rows = await raw.query(
    'select action, entity_type, actor_type from audit_entry where chain_id = ? order by sequence',
    [systemChain],
  )
  await raw.close()
  return rows
}

test('a forgotten password is replaced by a link, which ends sessions and keeps tokens and the second factor', async () => {
  const { token } = await createToken(service, owner.session)
  const authenticator = await setUpTotp(service, owner.session)
  const link = await makeLink('OWNER@example.com')
  // Making the link ends the sessions; it is no credential itself.
  await until(async () => !(await isAlive(owner.session)) || undefined, 120_000, 'the service knows of the end')
  expect([await isAlive(token), await isAlive(link)]).toEqual([true, false])
  const next = 'another long password'
  expect((await redeem(link, 'short')).status).toBe(400)
  const changed = await redeem(link, next)
  expect(changed).toMatchObject({ status: 200, body: { success: true } })
  expect(changed.headers.get('set-cookie')).toBeNull()
  expect((await login(owner.email, password)).status).toBe(401)
  expect(await login(owner.email, next)).toMatchObject({ status: 401, body: { message: /^code:/ } })
  const signedIn = await login(owner.email, next, authenticator.freshCode())
  expect(signedIn.status).toBe(200)
  expect(await isAlive(token)).toBe(true)
  expect(await redeem(link, 'a third long password')).toMatchObject(unknownLink)

  const events = await systemEvents()
  expect(events).toContainEqual({ action: 'CREATE', entity_type: 'password-reset', actor_type: 'operator' })
  expect(events).toContainEqual({ action: 'UPDATE', entity_type: 'user', actor_type: 'user' })
  const trail = await service.call<AuditEntry[]>('GET', '/v1/workspace/main/audit?limit=200', {
    token: signedIn.body.accessToken,
  })
  expect(trail.text).not.toContain(link)
  expect(trail.body).toContainEqual(
    expect.objectContaining({ action: 'CREATE', entity: expect.objectContaining({ type: 'password-reset' }) }),
  )
  expect(service.logs.join('\n')).not.toContain(link)
})

test('a login of before the reset that is still on its way, and an approved device, end with it', async () => {
  const person = await addUser(service, 'device@example.com')
  const link = await makeLink(person.email)
  const signedIn = await login(person.email, password)
  const device = await service.call<{ deviceCode: string; userCode: string }>('POST', '/v1/auth/device/code', {
    body: { clientId: 'cli' },
  })
  const { deviceCode, userCode } = device.body
  await service.call('POST', '/v1/auth/device/approve', {
    token: signedIn.body.accessToken,
    body: { userCode, approve: true },
  })
  expect((await redeem(link, 'another long password')).status).toBe(200)
  expect(await isAlive(signedIn.body.accessToken)).toBe(false)
  const polled = await service.call('POST', '/v1/auth/device/token', { body: { clientId: 'cli', deviceCode } })
  expect(polled.status).toBe(400)
})

test('a link works once, for 30 minutes, until a newer one is made, and never for another row', async () => {
  const person = await addUser(service, 'once@example.com')
  const old = await makeLink(person.email)
  const late = await makeLink(person.email)
  expect(await redeem(old, password)).toMatchObject(unknownLink)
  service.clock.offsetMs += 31 * minute
  expect(await redeem(late, password)).toMatchObject(unknownLink)
  service.clock.offsetMs -= 31 * minute
  const both = await Promise.all(['one long password', 'two long password'].map((next) => redeem(late, next)))
  expect(both.map(({ status }) => status).sort()).toEqual([200, 404])
  for (const token of ['', 'made-up', createBearer(resetPrefix), owner.session]) {
    const { status } = await redeem(token, password)
    expect(status).toBe(token === '' ? 400 : 404)
  }

  const stranger = await addUser(service, 'stranger@example.com')
  const link = await makeLink(person.email)
  const raw = await openRaw(service)
  for (const [column, value] of [
    ['user_id', stranger.id],
    ['expires_at', Date.now() + 10_000 * minute],
  ] as const) {
    await raw.restoring(['password_reset'], async () => {
      await raw.query(`update password_reset set ${column} = ? where user_id = ?`, [value, person.id])
      expect(await redeem(link, password)).toMatchObject(unknownLink)
    })
  }
  const stored = JSON.stringify(await raw.query('select * from password_reset'))
  expect(stored).not.toContain(link)
  await raw.close()
  expect((await redeem(link, password)).status).toBe(200)
})

test('a link ends when the person changes the password', async () => {
  const person = await addUser(service, 'changed@example.com')
  const link = await makeLink(person.email)
  const { body: signedIn } = await login(person.email, password)
  const body = { currentPassword: password, newPassword: 'another long password' }
  const changed = await service.call('PUT', '/v1/me/password', { token: signedIn.accessToken, body })
  expect(changed.status).toBe(200)
  expect(await redeem(link, 'a third long password')).toMatchObject(unknownLink)
})

test('a link survives a rotation of the root key, and unlocks an address with too many failed logins', async () => {
  const person = await addUser(service, 'locked@example.com')
  for (let failed = 0; failed < 11; failed++) await login(person.email, 'wrong horse battery staple')
  expect((await login(person.email, password)).status).toBe(429)
  const link = await makeLink(person.email)
  expect((await operate('keys', 'rotate-root')).code).toBe(0)
  expect((await redeem(link, 'another long password')).status).toBe(200)
  expect((await login(person.email, 'another long password')).status).toBe(200)
})

test('list shows everybody with what they own, and is recorded', async () => {
  const { code, out } = await operate('account', 'list')
  expect(code).toBe(0)
  expect(out.trim().split('\n')).toEqual([
    expect.stringMatching(/^changed@example\.com {2}since /),
    expect.stringMatching(/^device@example\.com {2}since \d{4}-\d\d-\d\d$/),
    expect.stringMatching(/^locked@example\.com {2}since /),
    expect.stringMatching(/^once@example\.com {2}since /),
    expect.stringMatching(/^owner@example\.com {2}since \d{4}-\d\d-\d\d, second factor, owns main$/),
    expect.stringMatching(/^stranger@example\.com {2}since /),
  ])
  expect((await systemEvents()).at(-1)).toEqual({ action: 'VIEW', entity_type: 'account', actor_type: 'operator' })
})

test('an unknown address and an incomplete command are refused', async () => {
  expect(await operate('account', 'reset-password', 'nobody@example.com')).toMatchObject({
    code: 1,
    err: 'There is no account with this email address.\n',
  })
  expect(await operate('account', 'reset-password')).toMatchObject({ code: 2 })
  expect(await operate('account', 'list', 'all')).toMatchObject({ code: 2 })
})
