/** `coffer-server account …`, run as an operator runs it, on the store of a service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../test/authenticator.ts'
import { runHere } from '../../../test/command.ts'
import {
  createDatabase,
  createToken,
  type Database,
  openService,
  password,
  registerOwner,
  type TestUser,
} from '../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../test/mail-server.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { systemChain } from '../domain/audit/event.ts'

let database: Database
let mailServer: MailServer
let owner: TestUser
let token: string

/** The owner has a second factor, and its codes are lost. */
beforeAll(async () => {
  mailServer = await startMailServer()
  database = await createDatabase({ hasSchema: true })
  const service = await openService(database.settings, database.dataDir)
  owner = await registerOwner(service)
  token = (await createToken(service, owner.session)).token
  await setUpTotp(service, owner.session)
  await service.stop()
})
afterAll(async () => {
  await mailServer.stop()
  await database.drop()
})

const reset = (email: string, settings: Record<string, string> = {}) =>
  runHere(['account', 'reset-mfa', email], { ...database.settings, ...settings })

test('an unknown address and an incomplete command are refused', async () => {
  expect(await reset('nobody@example.com')).toMatchObject({
    code: 1,
    err: 'There is no account with this email address.\n',
  })
  expect(await runHere(['account', 'reset-mfa'], database.settings)).toMatchObject({ code: 2 })
  expect(await runHere(['account', 'reset'], database.settings)).toMatchObject({ code: 2 })
})

test('reset-mfa removes only the second factor, notifies the person, and is recorded', async () => {
  const mail = { COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}`, COFFER_MAIL_FROM: 'coffer@example.com' }
  const { code, out, err } = await reset('OWNER@example.com', mail)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toBe(
    'The second factor of owner@example.com is removed: the password alone signs in. Sessions and tokens stay.\n',
  )
  const message = await mailServer.mailTo(owner.email)
  expect(message.text).toContain('has removed the authenticator app')

  const service = await openService(database.settings, database.dataDir)
  for (const credential of [owner.session, token]) {
    expect((await service.call('GET', '/v1/me', { token: credential })).body).toMatchObject({ mfa: false })
  }
  const body = { email: owner.email, password }
  expect((await service.call('POST', '/v1/auth/login', { body })).status).toBe(200)
  const recorded = { action: 'DELETE', entity: { type: 'second-factor', name: owner.email } }
  const trail = await service.call<unknown[]>('GET', '/v1/workspace/main/audit?action=DELETE', { token: owner.session })
  expect(trail.body).toMatchObject([{ ...recorded, actor: { type: 'operator', id: 'operator' }, outcome: 'success' }])
  const raw = await openRaw(service)
  const rows = await raw.query('select action, entity_type from audit_entry where chain_id = ? and actor_type = ?', [
    systemChain,
    'operator',
  ])
  expect(rows).toEqual([{ action: 'DELETE', entity_type: 'second-factor' }])
  await raw.close()
  await service.stop()

  // A second reset finds nothing to remove.
  expect(await reset(owner.email)).toMatchObject({
    code: 1,
    err: 'This account has no second factor: nothing was changed.\n',
  })
})
