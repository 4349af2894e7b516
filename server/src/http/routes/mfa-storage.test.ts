/** The second factor in the database: it survives a root key rotation, and writing to its rows lets nobody in. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type Authenticator, setUpTotp } from '../../../../test/authenticator.ts'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { asOperator } from '../../domain/context.ts'
import { rotateRoot } from '../../domain/workspace/key.ts'
import { countTampered } from '../../store/integrity.ts'

let service: TestService
let workspaceId: string
let raw: RawDatabase
let people = 0

beforeAll(async () => {
  // Start in the middle of a TOTP step, so that a code does not expire between reading and sending it.
  vi.useFakeTimers({ toFake: ['Date'], now: Math.floor(Date.now() / 30_000) * 30_000 + 15_000 })
  service = await startService()
  const owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
  raw = await openRaw(service)
})
afterAll(async () => {
  vi.useRealTimers()
  await raw.close()
  await service.stop()
})
afterEach(() => {
  service.clock.offsetMs = 0
})

const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const login = (email: string, more: Record<string, unknown> = {}) =>
  service.call<SignedIn>('POST', '/v1/auth/login', { body: { email, password, ...more } })
const statusOf = async (email: string, more: Record<string, unknown> = {}) => (await login(email, more)).status

async function withApp(): Promise<{ person: TestUser; app: Authenticator }> {
  const person = await newPerson()
  return { person, app: await setUpTotp(service, person.session) }
}

async function rotateActiveRoot(): Promise<void> {
  await rotateRoot(asOperator(service.app.services), () => undefined, 0)
}

test('a root key rotation keeps the app and the recovery codes valid, and the old root is no longer needed', async () => {
  const { person, app } = await withApp()
  const { services } = service.app
  const before = services.keys.keyring.active.id
  await rotateActiveRoot()
  expect(await raw.query('select * from totp where mac_root_id = ?', [before])).toEqual([])
  expect(await countTampered(services.engine, services.keys)).toEqual([])
  expect(await statusOf(person.email, { code: app.freshCode() })).toBe(200)
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(200)
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(401)
})

/** An attacker who can write to the database and knows the password still cannot log in. */
async function expectTampered(person: TestUser, tamper: () => Promise<unknown>, code: string): Promise<void> {
  await raw.restoring(['account', 'totp', 'recovery_code', 'login_attempt'], async () => {
    await tamper()
    for (const more of [{}, { code }]) {
      const answer = await login(person.email, more)
      expect([401, 500], answer.text).toContain(answer.status)
    }
  })
}

const totpOf = async (user: TestUser) => {
  const [row] = await raw.query('select * from totp where user_id = ?', [user.id])
  if (!row) throw new Error('the second factor is missing')
  return row
}

test('a second factor cannot be moved, swapped, disabled or reset by writing to the database', async () => {
  const [victim, mallory] = [await withApp(), await withApp()]
  const [theirs, mine] = [await totpOf(victim.person), await totpOf(mallory.person)]
  service.clock.offsetMs += 60_000
  const code = mallory.app.code()
  const { person } = victim
  const attempts: [string, () => Promise<unknown>][] = [
    [
      'moved',
      () =>
        raw
          .query('update totp set user_id = ? where id = ?', ['', theirs.id ?? ''])
          .then(() => raw.query('update totp set user_id = ? where id = ?', [person.id, mine.id ?? ''])),
    ],
    [
      'moved under the original id',
      async () => {
        await raw.query('delete from totp where id = ?', [theirs.id ?? ''])
        await raw.query('update totp set user_id = ?, id = ? where id = ?', [person.id, theirs.id ?? '', mine.id ?? ''])
      },
    ],
    [
      'sealed value swapped',
      () => raw.query('update totp set sealed = ? where id = ?', [mine.sealed ?? null, theirs.id ?? '']),
    ],
    [
      'sealed value and MAC swapped',
      () =>
        raw.query('update totp set sealed = ?, mac = ? where id = ?', [
          mine.sealed ?? null,
          mine.mac ?? null,
          theirs.id ?? '',
        ]),
    ],
    ['removed', () => raw.query('delete from totp where id = ?', [theirs.id ?? ''])],
    ['unconfirmed', () => raw.query('update totp set confirmed_at = null where id = ?', [theirs.id ?? ''])],
    ['removed from the account', () => raw.query('update account set totp_id = null where id = ?', [person.id])],
    [
      'account pointed at another one',
      () => raw.query('update account set totp_id = ? where id = ?', [mine.id ?? '', person.id]),
    ],
    [
      'recovery codes moved',
      () => raw.query('update recovery_code set totp_id = ? where totp_id = ?', [theirs.id ?? '', mine.id ?? '']),
    ],
  ]
  for (const [what, tamper] of attempts) {
    const tried = what === 'recovery codes moved' ? (mallory.app.recoveryCodes[0] ?? '') : code
    await expectTampered(person, tamper, tried)
  }
  expect(await statusOf(person.email, { code: victim.app.code() })).toBe(200)
  expect(await statusOf(mallory.person.email, { code })).toBe(200)
})

test('a used code stays used when its step is reset in the database', async () => {
  const { person, app } = await withApp()
  const code = app.freshCode()
  expect(await statusOf(person.email, { code })).toBe(200)
  const { id } = await totpOf(person)
  await expectTampered(person, () => raw.query('update totp set last_step = 0 where id = ?', [id ?? '']), code)
})

test('doctor reports a tampered second factor, and a root key rotation does not re-sign it', async () => {
  const { person, app } = await withApp()
  const { services } = service.app
  const tampered = () => countTampered(services.engine, services.keys)
  const { id } = await totpOf(person)
  await raw.query('update totp set last_step = 1 where id = ?', [id ?? ''])
  expect(await tampered()).toEqual(['1 second factors'])
  await rotateActiveRoot()
  expect(await tampered()).toEqual(['1 second factors'])
  expect((await login(person.email, { code: app.freshCode() })).status).toBe(500)
})
