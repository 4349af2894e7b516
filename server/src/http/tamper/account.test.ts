/** An account or session that was tampered with in the database is refused, and never gives more access. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestService, TestUser } from '../../../../test/harness.ts'
import { bytesOf, type Cell, flip, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { createTamperedWorkspaces, malloryPassword, unknownRoot } from '../../../../test/tampered-workspace.ts'
import { hourMs } from '../../domain/time.ts'

const { start, stop, invalidateAll, one, rightsOf } = createTamperedWorkspaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser

beforeAll(async () => {
  ;({ service, raw, owner, mallory } = await start())
})
afterAll(stop)

describe('a tampered account', () => {
  const change = (id: string, columns: RawRow) =>
    raw.query(`update account set ${Object.keys(columns).map((column) => `${column} = ?`)} where id = ?`, [
      ...Object.values(columns),
      id,
    ])
  const rowOf = (id: string) => one('select * from account where id = ?', [id])

  async function expectLoginRefused(email: string, password: string): Promise<void> {
    await raw.query('delete from login_attempt')
    const answer = await service.call('POST', '/v1/auth/login', { body: { email, password } })
    expect([401, 500]).toContain(answer.status)
    expect(answer.headers.get('set-cookie')).toBeNull()
  }

  test.each<[string, () => RawRow | Promise<RawRow>]>([
    [
      'the password hash of another account',
      async () => ({ password_hash: (await rowOf(mallory.id)).password_hash ?? null }),
    ],
    [
      'password hash and MAC of another account',
      async () => {
        const { password_hash = null, mac = null } = await rowOf(mallory.id)
        return { password_hash, mac }
      },
    ],
    ['another creation time', () => ({ created_at: 1 })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['an unknown root', () => ({ mac_root_id: unknownRoot })],
  ])('is refused, by password or session: %s', async (_what, columns) => {
    await raw.restoring(['account', 'login_attempt'], async () => {
      await change(owner.id, await columns())
      invalidateAll()
      await expectLoginRefused(owner.email, malloryPassword)
      await expectLoginRefused(owner.email, 'correct horse battery staple')
      expect(await rightsOf(owner.session)).toEqual([])
      expect([401, 500]).toContain((await service.call('GET', '/v1/me', { token: owner.session })).status)
    })
    invalidateAll()
    expect((await service.call('GET', '/v1/me', { token: owner.session })).status).toBe(200)
  })

  test('is refused under the address of another account', async () => {
    await raw.restoring(['account', 'login_attempt'], async () => {
      await change(owner.id, { email: 'elsewhere@example.com' })
      await change(mallory.id, { email: owner.email })
      invalidateAll()
      await expectLoginRefused(owner.email, malloryPassword)
      await expectLoginRefused('elsewhere@example.com', 'correct horse battery staple')
      expect(await rightsOf(mallory.session)).toEqual([])
    })
    invalidateAll()
  })

  test('is refused under the id of another account', async () => {
    await raw.restoring(['account', 'login_attempt'], async () => {
      const { id, ...row } = await rowOf(mallory.id)
      await raw.query('delete from account where id = ?', [id ?? null])
      await change(owner.id, row)
      invalidateAll()
      await expectLoginRefused(mallory.email, malloryPassword)
      expect(await rightsOf(owner.session)).toEqual([])
    })
    invalidateAll()
  })

  test('is refused with any byte of the MAC changed', async () => {
    const { mac } = await rowOf(owner.id)
    await raw.restoring(['account'], async () => {
      for (let at = 0; at < 32; at++) {
        await change(owner.id, { mac: flip(mac, at) })
        invalidateAll()
        expect((await service.call('GET', '/v1/workspace', { token: owner.session })).status).toBe(500)
      }
    })
    invalidateAll()
  })
})

describe('a tampered session', () => {
  const hashed = async (user: TestUser) => {
    const rows = await raw.query('select * from session where user_id = ? order by created_at limit 1', [user.id])
    return rows[0] ?? {}
  }
  const change = (id: Cell | undefined, columns: RawRow) =>
    raw.query(`update session set ${Object.keys(columns).map((column) => `${column} = ?`)} where id = ?`, [
      ...Object.values(columns),
      id ?? null,
    ])

  async function expectRefused(sessions: readonly string[], tamper: () => Promise<unknown>): Promise<void> {
    await raw.restoring(['session'], async () => {
      await tamper()
      invalidateAll()
      for (const session of sessions) {
        expect(await rightsOf(session)).toEqual([])
        expect((await service.call('GET', '/v1/me', { token: session })).status).toBe(401)
      }
    })
    invalidateAll()
  }

  test.each<[string, () => RawRow | Promise<RawRow>]>([
    ['another user', () => ({ user_id: owner.id })],
    ['another user and MAC', async () => ({ user_id: owner.id, mac: (await hashed(owner)).mac ?? null })],
    ['the type cli', () => ({ type: 'cli' })],
    ['a later expiry', () => ({ expires_at: Date.now() + 10 ** 12 })],
    ['another creation time', () => ({ created_at: 1 })],
    ['another id', () => ({ id: unknownRoot })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['an unknown root', () => ({ mac_root_id: unknownRoot })],
  ])('is refused: %s', async (_what, columns) => {
    const { id } = await hashed(mallory)
    await expectRefused([mallory.session], async () => change(id, await columns()))
    expect((await service.call('GET', '/v1/me', { token: mallory.session })).status).toBe(200)
  })

  test('is refused: any byte of the MAC or the hash', async () => {
    const { id, mac, hash } = await hashed(mallory)
    await raw.restoring(['session'], async () => {
      for (let at = 0; at < 32; at++) {
        for (const columns of [{ mac: flip(mac, at) }, { mac: bytesOf(mac), hash: flip(hash, at) }]) {
          await change(id, columns)
          invalidateAll()
          expect((await service.call('GET', '/v1/me', { token: mallory.session })).status).toBe(401)
        }
        await change(id, { hash: bytesOf(hash) })
      }
    })
    invalidateAll()
  })

  test('is refused: hashes of two sessions swapped', async () => {
    const [one, two] = [await hashed(mallory), await hashed(owner)]
    await expectRefused([mallory.session, owner.session], async () => {
      await change(one.id, { hash: Buffer.alloc(32) })
      await change(two.id, { hash: one.hash ?? null })
      await change(one.id, { hash: two.hash ?? null })
    })
  })

  test('is refused: an expired session with a later expiry', async () => {
    service.clock.offsetMs = -31 * 24 * hourMs
    const body = { email: mallory.email, password: malloryPassword }
    const { body: old } = await service.call<SignedIn>('POST', '/v1/auth/login', { body })
    service.clock.offsetMs = 0
    const now = Date.now()
    await expectRefused([old.accessToken], () =>
      raw.query('update session set expires_at = ?, last_seen_at = ? where expires_at < ?', [now + 10 ** 10, now, now]),
    )
  })
})
