/** A membership that was tampered with in the database grants nothing, to its owner or anyone else. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestService, TestUser } from '../../../../test/harness.ts'
import { bytesOf, type Cell, flip, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { createTamperedWorkspaces, everything, isInMain, unknownRoot } from '../../../../test/tampered-workspace.ts'

const { start, stop, invalidateAll, one, rightsOf } = createTamperedWorkspaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let mainId: string
let strangeId: string
let projectId: string

beforeAll(async () => {
  ;({ service, raw, owner, mallory, stranger, mainId, strangeId, projectId } = await start())
})
afterAll(stop)

describe('a tampered membership', () => {
  let malloryRow: RawRow
  let ownerRow: RawRow
  let baseline: string[]

  beforeAll(async () => {
    malloryRow = await one('select * from member where user_id = ? and workspace_id = ?', [mallory.id, mainId])
    ownerRow = await one('select * from member where user_id = ? and workspace_id = ?', [owner.id, mainId])
    baseline = await rightsOf(mallory.session)
    expect(baseline.filter(isInMain).length).toBeGreaterThan(2)
    expect(baseline.filter((right) => /POST|PUT|closed|audit/.test(right))).toEqual([])
  })

  const change = (columns: RawRow, id: Cell = malloryRow.id ?? null) =>
    raw.query(`update member set ${Object.keys(columns).map((column) => `${column} = ?`)} where id = ?`, [
      ...Object.values(columns),
      id,
    ])

  async function expectNothing(session: string, tamper: () => Promise<unknown>): Promise<void> {
    await raw.restoring(['member'], async () => {
      await tamper()
      invalidateAll()
      expect((await rightsOf(session)).filter(isInMain)).toEqual([])
    })
    invalidateAll()
  }

  test.each<[string, () => RawRow]>([
    ['role admin', () => ({ role: 'admin' })],
    ['role developer', () => ({ role: 'developer' })],
    ['an unknown role', () => ({ role: 'root' })],
    ['scope all', () => ({ scope: everything })],
    ['a scope with another project', () => ({ scope: String(malloryRow.scope).replace(projectId, mainId) })],
    ['the same scope with extra white space', () => ({ scope: `${String(malloryRow.scope)} ` })],
    ['a scope that is not JSON', () => ({ scope: '{' })],
    ['another id', () => ({ id: unknownRoot })],
    ['another creation time', () => ({ created_at: Number(malloryRow.created_at) + 1 })],
    ['role and MAC of the owner', () => ({ role: 'admin', mac: ownerRow.mac ?? null })],
    ['every field of the owner but the user', () => ({ role: 'admin', scope: everything, mac: ownerRow.mac ?? null })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['half of the MAC', () => ({ mac: bytesOf(malloryRow.mac).subarray(0, 16) })],
    ['a MAC of zeros', () => ({ role: 'admin', mac: Buffer.alloc(32) })],
    ['an unknown root', () => ({ mac_root_id: unknownRoot })],
    ['no root', () => ({ role: 'admin', mac_root_id: '' })],
  ])('grants nothing: %s', async (_what, columns) => {
    await expectNothing(mallory.session, () => change(columns()))
    expect(await rightsOf(mallory.session)).toEqual(baseline)
  })

  test('grants nothing: ownership', async () => {
    await expectNothing(mallory.session, async () => {
      await change({ is_owner: 0 }, ownerRow.id)
      await change({ is_owner: 1, role: 'admin', scope: everything })
    })
  })

  test('grants nothing: any byte of the MAC', async () => {
    await raw.restoring(['member'], async () => {
      for (let at = 0; at < 32; at++) {
        await change({ mac: flip(malloryRow.mac, at) })
        invalidateAll()
        const answer = await service.call<unknown[]>('GET', '/v1/workspace', { token: mallory.session })
        expect(answer).toMatchObject({ status: 200, body: [] })
      }
    })
    invalidateAll()
  })

  test("grants nothing: another member's row with the user replaced", async () => {
    await expectNothing(stranger.session, () => change({ user_id: stranger.id }, malloryRow.id))
    await expectNothing(stranger.session, () => change({ user_id: stranger.id }, ownerRow.id))
    await expectNothing(mallory.session, async () => {
      await raw.query('delete from member where id = ?', [malloryRow.id ?? null])
      await change({ user_id: mallory.id }, ownerRow.id)
    })
  })

  test('grants nothing: a row moved from another workspace, or copied', async () => {
    const foreign = await one('select * from member where user_id = ? and workspace_id = ?', [stranger.id, strangeId])
    await expectNothing(stranger.session, () => change({ workspace_id: mainId, is_owner: 0 }, foreign.id))
    await expectNothing(stranger.session, async () => {
      const copy = { ...foreign, id: unknownRoot, workspace_id: mainId, is_owner: 0 }
      const columns = Object.keys(copy)
      await raw.query(`insert into member (${columns}) values (${columns.map(() => '?')})`, Object.values(copy))
    })
  })

  test('an owner whose row was tampered with loses access to the workspace, and others keep theirs', async () => {
    const before = await rightsOf(stranger.session)
    await raw.restoring(['member'], async () => {
      await change({ role: 'member' }, ownerRow.id)
      invalidateAll()
      expect((await rightsOf(owner.session)).filter(isInMain)).toEqual([])
      expect(await rightsOf(mallory.session)).toEqual(baseline)
      expect(await rightsOf(stranger.session)).toEqual(before)
    })
    invalidateAll()
  })

  test('is logged without its content', async () => {
    await raw.restoring(['member'], async () => {
      await change({ role: 'admin' })
      invalidateAll()
      service.logs.length = 0
      await rightsOf(mallory.session)
    })
    invalidateAll()
    const lines = service.logs.filter((line) => line.includes('membership rows failed their integrity check'))
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.join()).toContain(mainId)
  })
})
