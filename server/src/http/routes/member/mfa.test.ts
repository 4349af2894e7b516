/** DELETE /v1/workspace/{ws}/rbac/{id}/mfa: an admin resets the second factor that a member has lost. */
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import {
  addUser,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../../../../test/mail-server.ts'
import { until } from '../../../../../test/wait.ts'
import { everything } from '../../../domain/scope.ts'

let service: TestService
let mail: MailServer
let owner: TestUser
let workspaceId: string
let people = 0

beforeAll(async () => {
  mail = await startMailServer()
  service = await startService({ COFFER_SMTP_URL: `smtp://127.0.0.1:${mail.port}` })
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
})
afterAll(async () => {
  await service.stop()
  await mail.stop()
})

type Person = TestUser & { readonly memberId: string }
type Role = 'admin' | 'developer' | 'member'

async function join(role: Role, hasFactor = true, more: object = {}): Promise<Person> {
  const person = await addUser(service, `person-${++people}@example.com`, { workspaceId, role, ...more })
  if (hasFactor) await setUpTotp(service, person.session)
  return { ...person, memberId: person.memberId ?? '' }
}

const reset = (memberId: string, token = owner.session, ws = 'main') =>
  service.call<{ message: string }>('DELETE', `/v1/workspace/${ws}/rbac/${memberId}/mfa`, { token })
const login = (email: string) => service.call('POST', '/v1/auth/login', { body: { email, password } })
const hasFactor = async ({ email }: Person) => (await login(email)).status === 401

async function mailStateOf(inviteId: string): Promise<string | undefined> {
  const path = '/v1/workspace/main/rbac'
  const { body } = await service.call<{ id: string; mail?: string }[]>('GET', path, { token: owner.session })
  return body.find(({ id }) => id === inviteId)?.mail
}

async function expectRefused(work: () => ReturnType<typeof reset>, status: number, message: RegExp) {
  const before = await readContent(service.app.services)
  const answer = await work()
  expect(answer.status, answer.text).toBe(status)
  expect(answer.body.message).toMatch(message)
  const after = await readContent(service.app.services)
  expect(describeChanges(before, after)).toEqual([])
  expect(after.trail).toBe(before.trail)
}

const onlyOperator =
  /^Only the operator can reset the second factor of this person: coffer-server account reset-mfa <email>\.$/

test('removes app and recovery codes; sessions and tokens stay, and the person is told by mail', async () => {
  const person = await join('developer')
  const { token } = await createToken(service, person.session)
  expect(await hasFactor(person)).toBe(true)
  expect(await reset(person.memberId)).toMatchObject({ status: 200, body: { success: true } })
  expect((await login(person.email)).status).toBe(200)
  for (const kept of [person.session, token])
    expect((await service.call('GET', '/v1/me', { token: kept })).status).toBe(200)
  const { text } = await mail.mailTo(person.email)
  expect(text).toContain('An admin of the workspace Main has removed the authenticator app and the recovery codes')
  // The person can set up another one at once.
  await setUpTotp(service, person.session)
  expect(await hasFactor(person)).toBe(true)
})

test('is recorded in the trails of the workspace and of the service, with the admin who did it', async () => {
  const person = await join('member')
  const admin = await join('admin', false)
  expect((await reset(person.memberId, admin.session)).status).toBe(200)
  const path = `/v1/workspace/main/audit?limit=5&action=DELETE&q=${encodeURIComponent(person.email)}`
  const { body } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  expect(body[0]).toMatchObject({
    action: 'DELETE',
    outcome: 'success',
    actor: { type: 'user', id: admin.id },
    entity: { type: 'second-factor', name: person.email },
  })
  const verdict = await service.call('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body).toMatchObject({ ok: true })
})

describe('is refused', () => {
  test('for an account that belongs to another workspace, whoever asks', async () => {
    const person = await join('member')
    const body = { name: 'Elsewhere', slug: `elsewhere-${people}` }
    await service.call('POST', '/v1/workspace', { token: person.session, body })
    await expectRefused(() => reset(person.memberId), 403, onlyOperator)
    expect(await hasFactor(person)).toBe(true)
    await service.call('DELETE', `/v1/workspace/${body.slug}`, { token: person.session, body: { password } })
    expect((await reset(person.memberId)).status).toBe(200)
  })

  test('for the owner, who outranks every admin; admins may reset one another', async () => {
    await setUpTotp(service, owner.session)
    const members = await service.call<{ id: string; isOwner: boolean }[]>('GET', '/v1/workspace/main/rbac', {
      token: owner.session,
    })
    const ownerRow = members.body.find(({ isOwner }) => isOwner)?.id ?? ''
    const [first, second] = [await join('admin'), await join('admin')]
    await expectRefused(() => reset(ownerRow, first.session), 403, onlyOperator)
    expect((await reset(second.memberId, first.session)).status).toBe(200)
    expect((await reset(first.memberId)).status).toBe(200)
  })

  test('for oneself: that takes the password', async () => {
    const admin = await join('admin')
    await expectRefused(() => reset(admin.memberId, admin.session), 403, /^To remove your own second factor, call/)
    const mark = { mayAdminister: true, expiresIn: '24h', password } as const
    const { token } = await createToken(service, admin.session, mark)
    await expectRefused(() => reset(admin.memberId, token), 403, /^To remove your own second factor, call/)
  })

  test('to anybody but an admin with scope "all" who may write', async () => {
    const person = await join('member')
    for (const role of ['developer', 'member'] as const) {
      const other = await join(role, false)
      await expectRefused(() => reset(person.memberId, other.session), 403, /^This needs the role admin\.$/)
    }
    const { body: project } = await service.call<{ id: string }>('POST', '/v1/workspace/main/project', {
      token: owner.session,
      body: { name: 'One', slug: 'one', teamId: await firstTeam() },
    })
    const scope = { ...everything, all: false, projects: [project.id] }
    const narrow = await join('admin', false, { scope })
    await expectRefused(() => reset(person.memberId, narrow.session), 403, /scope "all"/)
    const { token } = await createToken(service, owner.session, { permission: 'read' })
    await expectRefused(() => reset(person.memberId, token), 403, /./)
    expect(await hasFactor(person)).toBe(true)
  })

  test.each<[string, () => Promise<string> | string]>([
    ['an absent row', () => '01890000-0000-7000-8000-00000000dead'],
    [
      'an invite',
      async () => {
        const body = { email: `invited-${people}@example.com`, role: 'member', scope: { all: true } }
        const path = '/v1/workspace/main/rbac'
        const { body: invite } = await service.call<{ id: string }>('POST', path, { token: owner.session, body })
        await until(async () => (await mailStateOf(invite.id)) === 'sent' || undefined, 120_000, 'the mail is sent')
        return invite.id
      },
    ],
  ])('for %s with 404', async (_what, find) => {
    const id = await find()
    await expectRefused(() => reset(id), 404, /./)
  })

  test('for a member of another workspace with 404, and with 409 where there is nothing to remove', async () => {
    const other = await addUser(service, 'other-admin@example.com')
    await service.call('POST', '/v1/workspace', { token: other.session, body: { name: 'Other', slug: 'other' } })
    const person = await join('member')
    await expectRefused(() => reset(person.memberId, other.session), 404, /./)
    await expectRefused(() => reset(person.memberId, other.session, 'other'), 404, /./)
    const without = await join('member', false)
    await expectRefused(() => reset(without.memberId), 409, /^This account has no second factor/)
  })
})

test('of many at once, one removes it', async () => {
  const person = await join('member')
  const statuses = await Promise.all(Array.from({ length: 5 }, async () => (await reset(person.memberId)).status))
  expect(statuses.toSorted()).toEqual([200, 409, 409, 409, 409])
})

async function firstTeam(): Promise<string> {
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace/main/team', { token: owner.session })
  return body[0]?.id ?? ''
}
