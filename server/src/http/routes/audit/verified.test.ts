/** Every entry of a person says whether their email address was confirmed at that time. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hear } from '../../../../../test/change-log.ts'
import {
  createProject,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../../../test/mail-server.ts'

let mailServer: MailServer
let service: TestService
let owner: TestUser

beforeAll(async () => {
  mailServer = await startMailServer()
  service = await startService({ COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}` })
  owner = await registerOwner(service)
})
afterAll(async () => {
  await service.stop()
  await mailServer.stop()
})

async function trail(query: string): Promise<AuditEntry[]> {
  const path = `/v1/workspace/main/audit?limit=200&${query}`
  return (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body.reverse()
}

const mailed = async (email: string, form: RegExp) => form.exec((await mailServer.mailTo(email)).text)?.[1] ?? ''

test('entries of changes and reads have the actorVerified of their time, and the chain verifies', async () => {
  const { environments } = await createProject(service, owner.session, 'api')
  const secret = '/v1/workspace/main/project/api/secret'
  const body = { environments: [environments[0]?.id], secrets: [{ key: 'KEY', value: 'value' }] }
  expect((await service.call('POST', secret, { token: owner.session, body })).status).toBe(201)
  const { token } = await createToken(service, owner.session)
  // The response is the same each time and may come from the cache; only the caller differs.
  const read = (credential: string) => service.call('GET', secret, { token: credential })
  await read(owner.session)
  await read(token)
  await service.call('POST', '/v1/me/email/verify', { token: owner.session })
  const link = await mailed(owner.email, /#confirm-email=(cof_mail_\w+)/)
  const confirmed = { token: owner.session, body: { token: link } }
  expect((await service.call('POST', '/v1/me/email/confirm', confirmed)).status).toBe(200)
  await read(owner.session)
  await createProject(service, owner.session, 'web')

  const views = await trail('action=VIEW')
  expect(views.map(({ actor, details }) => [actor.type, details])).toEqual([
    ['user', { actorVerified: false }],
    ['token', { actorVerified: false }],
    ['user', { actorVerified: true }],
  ])
  const changes = await trail(`actor=${owner.id}&action=CREATE`)
  const detailsOf = (type: string, name: string) =>
    changes.find(({ entity }) => entity.type === type && entity.name === name)?.details
  expect(detailsOf('project', 'api')).toEqual({ actorVerified: false })
  expect(detailsOf('project', 'web')).toEqual({ actorVerified: true })
  const verdict = await service.call('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body).toMatchObject({ ok: true })
})

test('a person who has changed their address reads under the new one, also from the cache', async () => {
  const read = () => service.call('GET', '/v1/workspace/main/project/api/secret', { token: owner.session })
  const email = 'renamed@example.com'
  await hear(service)
  await read()
  expect((await service.call('PUT', '/v1/me/email', { token: owner.session, body: { email, password } })).status).toBe(
    200,
  )
  const link = { token: await mailed(email, /#confirm-email=(cof_mail_\w+)/) }
  expect((await service.call('POST', '/v1/me/email/confirm', { token: owner.session, body: link })).status).toBe(200)
  await read()
  const views = await trail('action=VIEW')
  expect(views.slice(-2).map(({ actor }) => actor.name)).toEqual([owner.email, email])
})

test('an account from the returned invite link is unverified, an account from the mailed link is verified', async () => {
  for (const [email, isMailed] of [
    ['impersonated@example.com', false],
    ['genuine@example.com', true],
  ] as const) {
    const { body: invite } = await service.call<{ inviteToken: string }>('POST', '/v1/workspace/main/rbac', {
      token: owner.session,
      body: { email, role: 'admin', scope: { all: true } },
    })
    const inviteToken = isMailed ? await mailed(email, /\/invite#(cof_inv_\w+)/) : invite.inviteToken
    const { body } = await service.call<SignedIn>('POST', '/v1/auth/register', {
      body: { email, name: 'Ada', password, inviteToken },
    })
    await createProject(service, body.accessToken, isMailed ? 'genuine' : 'impersonated')
    const entries = await trail(`actor=${body.user.id}`)
    expect(entries.map(({ action, details }) => [action, details])).toEqual([
      ['ACCEPT', { actorVerified: isMailed }],
      ['CREATE', { actorVerified: isMailed }],
    ])
  }
})
