/** What a person leaves behind: a removal lists it, ends their open invites, and leaves the rest to a decision. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Removal } from '@coffer/contract/member'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { githubActions } from '../../../../../server/src/providers/github-actions.ts'
import { addUser, createToken, password, type TestUser } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { type SyncWorld, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeGitHub } from '../../../../../test/vendor/fake/github-actions.ts'
import { newIdentity } from '../../../../../test/world.ts'

const main = '/v1/workspace/main'

let world: SyncWorld & { stop(): Promise<void> }
let raw: RawDatabase
let leaver: TestUser
let other: TestUser

beforeAll(async () => {
  world = await startSyncWorld(githubActions, fakeGitHub())
  raw = await openRaw(world.service)
  const { body } = await ask<{ id: string }>('GET', main)
  leaver = await addUser(world.service, 'leaver@example.com', { workspaceId: body.id, role: 'admin' })
  other = await addUser(world.service, 'other@example.com', { workspaceId: body.id, role: 'admin' })
})
afterAll(async () => {
  await raw.close()
  await world.stop()
})

const ask = <Body = { message: string }>(method: string, path: string, token = world.owner.session, body?: unknown) =>
  world.service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const must = async <Body = { id: string }>(method: string, path: string, token: string, body?: unknown) => {
  const answer = await ask<Body>(method, path, token, body)
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}
const inviteBy = (token: string, email: string) =>
  must<{ id: string; inviteToken: string }>('POST', `${main}/rbac`, token, {
    email,
    role: 'member',
    scope: { all: true },
  })
const isOpen = async (token: string) => (await ask('POST', '/v1/workspace/invite/lookup', '', { token })).status === 200

test('lists what stays, ends open invites, and each of the rest can be ended by its own call', async () => {
  const { service, owner, project } = world
  await project.set('development', { ALPHA: 'one' })
  const mine = await createServiceAccount(service, leaver.session, { name: 'mine' })
  const theirs = await createServiceAccount(service, other.session, { name: 'theirs' })
  const known = await createServiceToken(service, leaver.session, theirs.id, { name: 'known' })
  await createServiceToken(service, other.session, theirs.id, { name: 'unknown' })
  const kept = await createToken(service, leaver.session, { name: 'kept', permission: 'read' })
  await must('POST', `${main}/tokens/${kept.id}/transfer`, owner.session, { serviceAccountId: theirs.id })
  const lost = await createToken(service, leaver.session, {
    ...{ name: 'ops', mayAdminister: true, expiresIn: '24h', password },
  })
  const identity = await must('POST', `${main}/oidc`, leaver.session, newIdentity)
  const old = await must('POST', `${main}/oidc`, other.session, { ...newIdentity, name: 'old' })
  await must('POST', `${main}/oidc`, other.session, { ...newIdentity, name: 'of another' })
  await raw.query('update oidc_identity set created_by = null where id = ?', [old.id])
  const syncId = await setUpSync({ ...world, owner: leaver })
  await must('POST', `${project.root}/sync/${syncId}/transfer`, owner.session, { serviceAccountId: theirs.id })
  const share = await must('POST', `${project.root}/secret-share`, known.token, { content: 'x', expiresIn: 3_600 })
  const own = await must('POST', `${project.root}/secret-share`, leaver.session, { content: 'x', expiresIn: 3_600 })
  const open = await inviteBy(leaver.session, 'open@example.com')
  const renewed = await inviteBy(leaver.session, 'renewed@example.com')
  const taken = await must<{ inviteToken: string }>('POST', `${main}/rbac/${renewed.id}/resend`, other.session)
  const adopted = await inviteBy(other.session, 'adopted@example.com')
  const given = await must<{ inviteToken: string }>('POST', `${main}/rbac/${adopted.id}/resend`, leaver.session)

  const path = `${main}/rbac/${leaver.memberId}`
  const { body: dry } = await ask<Removal>('DELETE', `${path}?dryRun=true`)
  expect(dry.tokens).toMatchObject([{ id: lost.id, mayAdminister: true }])
  expect(dry.invites.map(({ email }) => email).sort()).toEqual(['adopted@example.com', 'open@example.com'])
  expect(dry.stays).toEqual({
    serviceAccounts: [{ id: mine.id, name: 'mine', tokens: 0 }],
    tokens: expect.arrayContaining(
      [known, kept].map(({ id, name, expiresAt }) => ({
        ...{ id, name, expiresAt, serviceAccountId: theirs.id, serviceAccountName: 'theirs' },
        lastUsedAt: name === 'known' ? expect.any(String) : null,
      })),
    ),
    identities: expect.arrayContaining([
      { id: identity.id, name: newIdentity.name, issuer: newIdentity.issuer, isMakerKnown: true },
      { id: old.id, name: 'old', issuer: newIdentity.issuer, isMakerKnown: false },
    ]),
    syncs: [{ id: syncId, name: expect.any(String), projectId: project.id }],
    shares: [{ id: share.id, label: expect.any(String), projectId: project.id, expiresAt: expect.any(String) }],
  })
  expect([dry.stays.tokens.length, dry.stays.identities.length, dry.shares]).toEqual([2, 2, 1])
  expect(await isOpen(open.inviteToken)).toBe(true)

  const { body: removed } = await ask<Removal>('DELETE', path)
  expect(removed).toEqual(dry)
  expect([await isOpen(open.inviteToken), await isOpen(given.inviteToken)]).toEqual([false, false])
  expect(await isOpen(taken.inviteToken)).toBe(true)
  const { body: entries } = await ask<AuditEntry[]>('GET', `${main}/audit?action=DELETE&limit=10`)
  const ended = entries.filter(({ entity }) => entity.type === 'invite').map(({ entity }) => entity.name)
  expect(ended.sort()).toEqual(['adopted@example.com', 'open@example.com'])
  expect(entries.find(({ entity }) => entity.type === 'member')?.after).toMatchObject({ removed: { invites: 2 } })

  expect((await ask('GET', main, known.token)).status).toBe(200)
  for (const end of [
    `${main}/service-account/${mine.id}`,
    `${main}/tokens/${known.id}`,
    `${main}/oidc/${identity.id}`,
    `${main}/project/${project.id}/sync/${syncId}?remove=false`,
    `${main}/project/${project.id}/secret-share/${share.id}`,
  ]) {
    expect((await ask('DELETE', end)).status, end).toBe(200)
  }
  expect((await ask('GET', main, known.token)).status).toBe(401)
  expect(own.id).not.toBe(share.id)
})

test('the removal of an invite ends nothing else', async () => {
  const { id } = await inviteBy(world.owner.session, 'nobody@example.com')
  const { body } = await ask<Removal>('DELETE', `${main}/rbac/${id}`)
  expect(body).toMatchObject({ invites: [], tokens: [], stays: { serviceAccounts: [], identities: [], shares: [] } })
})
