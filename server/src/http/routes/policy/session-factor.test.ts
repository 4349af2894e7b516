/** A workspace that requires a second factor admits the sessions that were opened with it, and no others. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { DeviceCode } from '@coffer/contract/device'
import type { Session } from '@coffer/contract/me'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Authenticator, setUpTotp } from '../../../../../test/authenticator.ts'
import { exchange, password, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { type PolicyWorld, startPolicyWorld } from '../../../../../test/policy-world.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'

let world: PolicyWorld
let service: TestService
let raw: RawDatabase

beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
  raw = await openRaw(service)
})
afterAll(async () => {
  await raw.close()
  await world.stop()
})
afterEach(() => {
  service.clock.offsetMs = 0
})

type Workspace = Awaited<ReturnType<PolicyWorld['newWorkspace']>>

const signInAgain =
  'This workspace requires a second factor, and this session was opened without one: sign in again with the code of your authenticator app.'
const setUp = 'This workspace requires a second factor: set up an authenticator app in your account.'

/** A workspace that requires a second factor, and a person who has one. */
async function newStage(): Promise<Workspace & { person: TestUser; app: Authenticator }> {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  await workspace.set({ requireMfa: true })
  const app = await setUpTotp(service, person.session)
  return { ...workspace, person, app }
}

const statusOf = async (token: string) => (await service.call('GET', '/v1/me', { token })).status
const answerOf = async ({ read }: Workspace, token: string) => {
  const { status, body } = await read(token)
  return status === 200 ? 200 : body.message
}
const sessionIdOf = async (token: string) =>
  (await service.call<Session[]>('GET', '/v1/me/session', { token })).body.find(({ current }) => current)?.id ?? ''

/** The session as a node of the version before writes it: without a record of how it was opened. */
async function forgetFactor(session: string): Promise<void> {
  await raw.query('delete from session_factor where id = ?', [await sessionIdOf(session)])
  service.app.services.credentials.clear()
}

test('enrolling ends every other session of the person, of browsers and command lines, and keeps this one', async () => {
  const workspace = await world.newWorkspace()
  const [person, bystander] = [await workspace.join(), await workspace.join()]
  const others = [await world.logIn(person), await world.logInDevice(person.session)]
  const pending = await service.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId: 'coffer-cli' } })
  const { userCode, deviceCode } = pending.body
  await service.call('POST', '/v1/auth/device/approve', { token: person.session, body: { userCode, approve: true } })
  await workspace.set({ requireMfa: true })
  await setUpTotp(service, person.session)
  for (const session of others) expect(await statusOf(session)).toBe(401)
  const collected = await service.call('POST', '/v1/auth/device/token', {
    body: { clientId: 'coffer-cli', deviceCode },
  })
  expect([collected.status, collected.text]).toEqual([400, '{"error":"expired_token"}'])
  expect(await answerOf(workspace, person.session)).toBe(200)
  expect([await statusOf(bystander.session), await answerOf(workspace, bystander.session)]).toEqual([200, setUp])
})

test('a login with a code of the app or a recovery code is admitted', async () => {
  const stage = await newStage()
  const { person, app } = stage
  for (const code of [app.freshCode(), app.recoveryCodes[0]]) {
    expect(await answerOf(stage, await world.logIn(person, { code }))).toBe(200)
  }
  const without = await service.call('POST', '/v1/auth/login', { body: { email: person.email, password } })
  expect(without.status).toBe(401)
})

test('a session without a record of its factors counts as one factor, and a new login is admitted', async () => {
  const stage = await newStage()
  const { person, app } = stage
  await forgetFactor(person.session)
  expect(await answerOf(stage, person.session)).toBe(signInAgain)
  expect(await statusOf(person.session)).toBe(200)
  expect(await answerOf(stage, await world.logIn(person, { code: app.freshCode() }))).toBe(200)
})

test('a session without a record does not create tokens in the workspace', async () => {
  const stage = await newStage()
  const { person, root } = stage
  await forgetFactor(person.session)
  const body = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }
  const answer = await service.call<{ message: string }>('POST', `${root}/tokens`, { token: person.session, body })
  expect([answer.status, answer.body.message]).toEqual([403, signInAgain])
})

test('a device login is worth as much as the session that approved it', async () => {
  const stage = await newStage()
  const { person } = stage
  const good = await world.logInDevice(person.session)
  expect(await answerOf(stage, good)).toBe(200)
  await forgetFactor(person.session)
  expect(await answerOf(stage, await world.logInDevice(person.session))).toBe(signInAgain)
  expect(await answerOf(stage, good)).toBe(200)
})

test('tokens and their JWTs stay judged by the enrolment of their owner', async () => {
  const stage = await newStage()
  const { person } = stage
  const { token } = await stage.token(person.session)
  const jwt = await exchange(service, token)
  await forgetFactor(person.session)
  expect([await answerOf(stage, token), await answerOf(stage, jwt)]).toEqual([200, 200])
})

test('the record of another session, or of a factor that was replaced, admits nobody', async () => {
  const stage = await newStage()
  const { person, app } = stage
  const other = await world.logIn(person, { code: app.recoveryCodes[0] })
  const [from, to] = [await sessionIdOf(person.session), await sessionIdOf(other)]
  await raw.restoring(['session_factor'], async () => {
    await raw.query('delete from session_factor where id = ?', [to])
    await raw.query('update session_factor set id = ? where id = ?', [to, from])
    service.app.services.credentials.clear()
    expect(await answerOf(stage, other)).toBe(signInAgain)
  })
  service.app.services.credentials.clear()
  expect(await answerOf(stage, other)).toBe(200)
  const removal = { code: app.recoveryCodes[1], password }
  await service.call('DELETE', '/v1/me/mfa/totp', { token: person.session, body: removal })
  expect(await answerOf(stage, other)).toBe(setUp)
  service.clock.offsetMs += 60_000
  await setUpTotp(service, person.session)
  expect([await statusOf(other), await answerOf(stage, person.session)]).toEqual([401, 200])
})

test('the row of the session stays as nodes of the version before read it', async () => {
  const { person } = await newStage()
  const id = await sessionIdOf(person.session)
  const [row = {}] = await raw.query('select * from session where id = ?', [id])
  const { mac, mac_root_id: macRootId } = row
  if (!(mac instanceof Uint8Array) || typeof macRootId !== 'string') throw new Error('the row has no MAC')
  const columns = ['id', 'user_id', 'type', 'created_at', 'expires_at', 'hash'] as const
  const fields = columns.map((column) => row[column] ?? null)
  expect(await service.app.services.keys.isGenuine('session', fields, { mac, macRootId })).toBe(true)
})

test('the trail of the workspace says that the enrolment ended sessions', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  await world.logIn(person)
  await setUpTotp(service, person.session)
  const path = `${workspace.root}/audit?actor=${person.id}&action=UPDATE`
  const { body } = await service.call<AuditEntry[]>('GET', path, { token: workspace.owner.session })
  expect(body[0]).toMatchObject({ entity: { type: 'second-factor' }, after: { isConfirmed: true, sessionsEnded: 1 } })
})
