/** Invites in the audit trail and in the database. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../test/member-workspace.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { asOperator } from '../../domain/context.ts'
import { rotateRoot } from '../../domain/workspace/key.ts'

const dayMs = 24 * 60 * 60 * 1000

let service: TestService
let owner: TestUser
let raw: RawDatabase
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

describe('the audit trail of an invite', () => {
  test('records every step with actor and values, never the token', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const first = await place.mustInvite({ email, role: 'member' })
    await place.ask('PUT', `/rbac/${first.id}`, { role: 'admin' })
    const second = await place.ask<{ inviteToken: string }>('POST', `/rbac/${first.id}/resend`)
    await place.accept(user.session, second.body.inviteToken)
    const scope = { all: true }
    const entries = await place.trail(first.id)
    const entity = { type: 'invite', id: first.id, name: email }
    expect(entries).toMatchObject([
      { action: 'CREATE', entity, actor: { id: owner.id }, after: { role: 'member', scope } },
      { action: 'UPDATE', entity, before: { role: 'member', scope }, after: { role: 'admin', scope } },
      { action: 'ROTATE', entity, actor: { id: owner.id } },
      { action: 'ACCEPT', entity, actor: { id: user.id, name: email }, after: { role: 'admin', scope, user: user.id } },
    ])
    expect(JSON.stringify(entries)).not.toMatch(/cof_inv_/)
    expect((await place.ask('GET', '/audit/verify')).body).toMatchObject({ ok: true })
  })
})

describe('the stored invite', () => {
  test('contains the hash of the token, not the token', async () => {
    const { id, inviteToken } = await place.mustInvite()
    const [row] = await raw.query('select * from invite where id = ?', [id])
    const text = JSON.stringify(row, (_key, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
    )
    expect(text).not.toContain(inviteToken.slice(9))
    expect(row?.hash).toHaveLength(32)
  })

  test.each<[string, string, string | number]>([
    ['role', 'role', 'admin'],
    ['scope', 'scope', '{"all":true,"teams":[],"projects":[],"environments":[]}'],
    ['address', 'email', 'mallory@example.com'],
    ['expiry', 'expires_at', 4_000_000_000_000],
    ['date', 'created_at', 1],
  ])('is invalid after its %s was changed directly in the database', async (_what, column, value) => {
    const mallory =
      column === 'email' ? await addUser(service, 'mallory@example.com') : await addUser(service, place.newAddress())
    const email = column === 'email' ? place.newAddress() : mallory.email
    const [team] = (await place.ask<{ id: string }[]>('GET', '/team')).body
    const { id, inviteToken } = await place.mustInvite({ email, role: 'member', scope: { teams: [team?.id] } })
    await raw.restoring(['invite'], async () => {
      await raw.query(`update invite set ${column} = ? where id = ?`, [value, id])
      expect((await place.accept(mallory.session, inviteToken)).status).toBe(404)
      expect((await place.ask('POST', `/rbac/${id}/resend`)).status).toBe(404)
      expect((await place.ask('PUT', `/rbac/${id}`, { role: 'admin' })).status).toBe(404)
      expect(await place.row(id)).toBeUndefined()
    })
    expect(await place.row(id)).toMatchObject({ status: 'invite-sent' })
  })

  test('cannot be taken over with the hash of another invite, or revived after it was declined', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const mine = await place.mustInvite({ email, role: 'member' })
    const theirs = await place.mustInvite({ role: 'admin' })
    await raw.restoring(['invite'], async () => {
      const [row] = await raw.query('select hash, hash_root_id from invite where id = ?', [mine.id])
      await raw.query('update invite set hash = null, email = ? where id = ?', ['gone@example.com', mine.id])
      await raw.query('update invite set hash = ?, email = ? where id = ?', [row?.hash ?? null, email, theirs.id])
      expect((await place.accept(user.session, mine.inviteToken)).status).toBe(404)
    })
    const [row] = await raw.query('select hash, hash_root_id from invite where id = ?', [mine.id])
    await place.decline(user.session, mine.inviteToken)
    await raw.restoring(['invite'], async () => {
      await raw.query('update invite set hash = ?, hash_root_id = ?, declined_at = null where id = ?', [
        row?.hash ?? null,
        row?.hash_root_id ?? null,
        mine.id,
      ])
      expect((await place.accept(user.session, mine.inviteToken)).status).toBe(404)
    })
  })
})

describe('a root key rotation', () => {
  test('keeps open invites valid, leaves tampered ones invalid, and drops the hashes of expired ones', async () => {
    const rotating = await startService()
    const there = await createMemberWorkspace(rotating, await registerOwner(rotating))
    const user = await addUser(rotating, 'good@example.com')
    const good = await there.mustInvite({ email: 'good@example.com' })
    const bad = await there.mustInvite({ email: 'bad@example.com', role: 'member' })
    const behind = await openRaw(rotating)
    await behind.query('update invite set role = ? where id = ?', ['admin', bad.id])
    await rotateRoot(asOperator(rotating.app.services), () => undefined, 0)
    expect((await there.members()).map(({ user }) => user.email)).not.toContain('bad@example.com')
    expect(await behind.query('select distinct mac_root_id from invite')).toHaveLength(1)
    const stranger = await addUser(rotating, 'bad@example.com')
    expect((await there.accept(stranger.session, bad.inviteToken)).status).toBe(404)
    expect((await there.accept(user.session, good.inviteToken)).status).toBe(200)
    rotating.clock.offsetMs += 8 * dayMs
    await rotateRoot(asOperator(rotating.app.services), () => undefined, 0)
    expect(await behind.query('select hash from invite where hash is not null')).toEqual([])
    await behind.close()
    await rotating.stop()
  })
})
