/** Confirming and changing the email address of an account, with links delivered by a real mail server. */
import type { Me } from '@coffer/contract/me'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../../test/mail-server.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { until } from '../../../../test/wait.ts'
import { asOperator } from '../../domain/context.ts'
import { rotateRoot } from '../../domain/workspace/key.ts'
import { cleanUp } from '../../jobs/cleanup.ts'
import { countTampered } from '../../store/integrity.ts'

let mailServer: MailServer
let service: TestService
let owner: TestUser
let workspaceId: string
let raw: RawDatabase
let people = 0

beforeAll(async () => {
  mailServer = await startMailServer()
  service = await startService({
    COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}`,
    COFFER_MAIL_FROM: 'coffer@example.com',
    COFFER_PUBLIC_URL: 'https://coffer.example.com',
  })
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  raw = await openRaw(service)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
  await mailServer.stop()
})
afterEach(() => {
  service.clock.offsetMs = 0
})

const newAddress = () => `person${++people}@example.com`
const newPerson = () => addUser(service, newAddress(), { workspaceId, role: 'member' })
const me = async (token: string) => (await service.call<Me>('GET', '/v1/me', { token })).body
const verify = (user: TestUser) => service.call('POST', '/v1/me/email/verify', { token: user.session })
const confirm = (user: TestUser, token: string) =>
  service.call('POST', '/v1/me/email/confirm', { token: user.session, body: { token } })
const change = (user: TestUser, email: string, more: Record<string, unknown> = { password }) =>
  service.call('PUT', '/v1/me/email', { token: user.session, body: { email, ...more } })
const logIn = (email: string) => service.call('POST', '/v1/auth/login', { body: { email, password } })
const mailsTo = (email: string) => mailServer.delivered.filter(({ to }) => to.includes(email))

/** The token in the link of the nth mail to this address. */
async function mailedToken(email: string, nth = 1): Promise<string> {
  const mail = await until(() => mailsTo(email)[nth - 1], 120_000, `mail ${nth} to ${email} arrives`)
  const [, token] = /https:\/\/coffer\.example\.com\/me#confirm-email=(cof_mail_\w+)/.exec(mail.text) ?? []
  return token ?? ''
}

const unknown = {
  status: 404,
  body: { message: 'This link has expired, was already used or was replaced by a newer one: request a new one.' },
}

test('an address is confirmed by the link mailed to it, once, and only by its own account', async () => {
  const [person, other] = [await newPerson(), await newPerson()]
  expect((await me(person.session)).emailVerified).toBe(false)
  expect((await verify(person)).body).toEqual({ success: true })
  const token = await mailedToken(person.email)
  expect(await confirm(other, token)).toMatchObject(unknown)
  expect((await confirm(person, token)).body).toEqual({ success: true })
  expect(await me(person.session)).toMatchObject({ email: person.email, emailVerified: true })
  expect((await me(other.session)).emailVerified).toBe(false)
  expect(await confirm(person, token)).toMatchObject(unknown)
  expect(await verify(person)).toMatchObject({ status: 409 })
  const { body: rows } = await service.call<unknown[]>('GET', '/v1/workspace/main/rbac', { token: owner.session })
  expect(rows).toContainEqual(expect.objectContaining({ user: expect.objectContaining({ emailVerified: true }) }))
  expect(rows).toContainEqual(
    expect.objectContaining({ user: { id: other.id, email: other.email, emailVerified: false, name: other.email } }),
  )
})

test('one of 10 concurrent uses of one link wins', async () => {
  const person = await newPerson()
  await verify(person)
  const token = await mailedToken(person.email)
  const answers = await Promise.all(Array.from({ length: 10 }, () => confirm(person, token)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(9)
})

test('a newer link, 24 hours and a password change each invalidate a link', async () => {
  const person = await newPerson()
  await verify(person)
  const first = await mailedToken(person.email)
  await verify(person)
  const second = await mailedToken(person.email, 2)
  expect(await confirm(person, first)).toMatchObject(unknown)
  const body = { currentPassword: password, newPassword: 'another long password' }
  expect((await service.call('PUT', '/v1/me/password', { token: person.session, body })).status).toBe(200)
  expect(await confirm(person, second)).toMatchObject(unknown)
  const late = await newPerson()
  await verify(late)
  const token = await mailedToken(late.email)
  service.clock.offsetMs = 24 * 3_600_000 + 1_000
  // The first session has expired by then.
  const { body: again } = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
    body: { email: late.email, password },
  })
  expect(await confirm({ ...late, session: again.accessToken }, token)).toMatchObject(unknown)
  await cleanUp(service.app.services)
  expect(await raw.query('select id from email_confirmation where user_id = ?', [late.id])).toEqual([])
})

test('a new address replaces the old one once it is confirmed, and the old address gets a mail', async () => {
  const person = await newPerson()
  const email = newAddress()
  expect((await change(person, email.toUpperCase())).body).toEqual({ success: true })
  expect(await me(person.session)).toMatchObject({ email: person.email, emailVerified: false })
  expect((await confirm(person, await mailedToken(email))).status).toBe(200)
  // The session stays valid under the new address.
  expect(await me(person.session)).toMatchObject({ id: person.id, email, emailVerified: true })
  expect([(await logIn(person.email)).status, (await logIn(email)).status]).toEqual([401, 200])
  const notice = await mailServer.mailTo(person.email)
  expect(notice.text).toContain(`now has the email address ${email} instead of ${person.email}`)
  const { body: trail } = await service.call('GET', `/v1/workspace/main/audit?actor=${person.id}&action=UPDATE`, {
    token: owner.session,
  })
  expect(trail).toMatchObject([
    {
      entity: { type: 'user', id: person.id, name: person.email },
      before: { email: person.email, emailVerified: false },
      after: { email, emailVerified: true },
    },
  ])
})

test('changing the address needs the password', async () => {
  const person = await newPerson()
  const email = newAddress()
  expect(await change(person, email, {})).toMatchObject({
    status: 403,
    body: { message: 'password: is required to confirm that it is you.' },
  })
  expect(await change(person, email, { password: 'a wrong password' })).toMatchObject({
    status: 403,
    body: { message: 'password: is wrong.' },
  })
  expect(await change(person, person.email)).toMatchObject({
    status: 400,
    body: { message: 'email: is already your address.' },
  })
  expect(mailsTo(email)).toEqual([])
})

test('only the mail reveals whether the new address has an account', async () => {
  const [person, taken] = [await newPerson(), await newPerson()]
  const free = newAddress()
  const answers = [await change(person, taken.email), await change(person, free)]
  expect(answers[0]?.text).toBe(answers[1]?.text)
  const [kept, other] = [await mailedToken(taken.email), await newPerson()]
  expect(await confirm(person, kept)).toMatchObject(unknown)
  await change(other, taken.email)
  expect(await confirm(other, await mailedToken(taken.email, 2))).toMatchObject({ status: 409 })
  expect((await me(taken.session)).email).toBe(taken.email)
  expect((await me(other.session)).email).toBe(other.email)
})

test('one of two accounts that confirm the same new address concurrently gets it', async () => {
  const [one, two] = [await newPerson(), await newPerson()]
  const email = newAddress()
  await change(one, email)
  const first = await mailedToken(email)
  await change(two, email)
  const second = await mailedToken(email, 2)
  const answers = await Promise.all([confirm(one, first), confirm(two, second)])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  expect(await raw.query('select id from account where email = ?', [email])).toHaveLength(1)
})

test('an account and an address are limited to ten mails in ten minutes each', async () => {
  const person = await newPerson()
  for (let sent = 0; sent < 10; sent++) expect((await change(person, newAddress())).status).toBe(200)
  const refused = await verify(person)
  expect(refused).toMatchObject({
    status: 429,
    body: { message: 'You have requested too many mails: wait before you request another.' },
  })
  const email = newAddress()
  for (let sent = 0; sent < 10; sent++) expect((await change(await newPerson(), email)).status).toBe(200)
  expect(await change(await newPerson(), email)).toMatchObject({
    status: 429,
    body: { message: 'Too many mails to this address: wait before you send another.' },
  })
})

test('the token is only in the mail: not in the database or the log', async () => {
  const person = await newPerson()
  await verify(person)
  const token = await mailedToken(person.email)
  for (const table of await raw.tables()) {
    for (const row of await raw.query(`select * from ${table}`)) {
      for (const cell of Object.values(row)) {
        const text = cell instanceof Uint8Array ? Buffer.from(cell).toString('latin1') : String(cell)
        expect(text).not.toContain(token)
      }
    }
  }
  expect(service.logs.join()).not.toContain(token)
})

test('writing to the database confirms no address', async () => {
  const [person, other] = [await newPerson(), await newPerson()]
  const { services } = service.app
  await raw.restoring(['account'], async () => {
    await raw.query('update account set email_verified_at = 1 where id = ?', [person.id])
    expect(await countTampered(services.engine, services.keys)).toEqual(['1 accounts'])
    expect((await service.call('GET', '/v1/me', { token: person.session })).status).toBe(500)
  })
  await verify(person)
  const token = await mailedToken(person.email)
  for (const [column, value] of [
    ['user_id', other.id],
    ['email', newAddress()],
    ['expires_at', Date.now() + 10 ** 12],
  ] as const) {
    await raw.restoring(['email_confirmation'], async () => {
      await raw.query(`update email_confirmation set ${column} = ? where user_id = ?`, [value, person.id])
      for (const user of [person, other]) expect(await confirm(user, token), column).toMatchObject(unknown)
      expect(await countTampered(services.engine, services.keys)).toEqual(['1 email confirmations'])
    })
  }
  expect((await confirm(person, token)).status).toBe(200)
})

test('links and confirmed addresses survive a root key rotation', async () => {
  const [person, waiting] = [await newPerson(), await newPerson()]
  await verify(person)
  await confirm(person, await mailedToken(person.email))
  await verify(waiting)
  await rotateRoot(asOperator(service.app.services), () => undefined, 0)
  expect((await confirm(waiting, await mailedToken(waiting.email))).status).toBe(200)
  for (const { session } of [person, waiting]) expect((await me(session)).emailVerified).toBe(true)
  expect(await countTampered(service.app.services.engine, service.app.services.keys)).toEqual([])
})

test('confirming and changing an address are refused without a mail server', async () => {
  const silent = await startService()
  const { session: token } = await registerOwner(silent)
  const message = 'No mail server is configured: ask the operator to set COFFER_SMTP_URL.'
  const body = { email: newAddress(), password }
  expect(await silent.call('POST', '/v1/me/email/verify', { token })).toMatchObject({ status: 409, body: { message } })
  expect(await silent.call('PUT', '/v1/me/email', { token, body })).toMatchObject({ status: 409, body: { message } })
  await silent.stop()
})
