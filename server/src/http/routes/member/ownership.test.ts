/** The ownership of a workspace passes only to a member, and only with a session of the owner. */
import type { Member } from '@coffer/contract/member'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createMemberWorkspace } from '../../../../../test/member-workspace.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const everything = { all: true, teams: [], projects: [], environments: [] }

describe('ownership', () => {
  test('passes to a member, whose new role is recorded and who is then protected', async () => {
    const there = await createMemberWorkspace(service, owner)
    const heir = await there.join({
      role: 'member',
      scope: { teams: [(await there.ask<Member[]>('GET', '/team')).body[0]?.id] },
    })
    expect((await there.ask('POST', '/owner', { memberId: heir.memberId, password })).body).toEqual({ success: true })
    const entries = await there.trail(heir.memberId)
    expect(entries.at(-1)).toMatchObject({
      action: 'UPDATE',
      entity: { type: 'member', name: heir.email },
      before: { role: 'member', scope: { all: false } },
      after: { role: 'admin', scope: everything },
    })
    expect((await there.trail(there.id)).at(-1)).toMatchObject({
      action: 'UPDATE',
      before: { owner: owner.id },
      after: { owner: heir.id },
    })
    const rows = await there.members()
    expect(rows.map(({ isOwner, role }) => ({ isOwner, role }))).toEqual([
      { isOwner: false, role: 'admin' },
      { isOwner: true, role: 'admin' },
    ])
    expect((await there.ask('DELETE', `/rbac/${heir.memberId}`)).status).toBe(409)
    expect((await there.ask('DELETE', `/rbac/${rows[0]?.id}`, undefined, heir.session)).status).toBe(200)
  })

  test('cannot pass to someone who is invited, unknown or removed', async () => {
    const there = await createMemberWorkspace(service, owner)
    const { id } = await there.mustInvite({ role: 'admin' })
    const gone = await there.join({ role: 'admin' })
    await there.ask('DELETE', `/rbac/${gone.memberId}`)
    for (const memberId of [id, gone.memberId, gone.id, owner.id]) {
      expect((await there.ask('POST', '/owner', { memberId, password })).status).toBe(404)
    }
    expect((await there.ask('POST', '/owner', { memberId: (await there.members())[0]?.id, password })).status).toBe(200)
    expect((await there.ask('POST', '/owner', { memberId: 'x' })).status).toBe(400)
  })

  test('is transferred only with a session of the owner', async () => {
    const there = await createMemberWorkspace(service, owner)
    const admin = await there.join({ role: 'admin' })
    const { token } = await createToken(service, owner.session, {}, there.slug)
    for (const credential of [token, await exchange(service, token), admin.session]) {
      const answer = await there.ask('POST', '/owner', { memberId: admin.memberId, password }, credential)
      expect(answer.status).toBe(403)
    }
  })
})
