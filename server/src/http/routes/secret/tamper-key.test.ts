/** Tampered or missing keys of an environment or workspace decrypt no value, and no value is encrypted with a planted key. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestProject, TestService, TestUser } from '../../../../../test/harness.ts'
import { bytesOf, flip, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'
import { createSecretTamper, environmentOf, type Table } from '../../../../../test/secret-tamper.ts'

const { start, stop, invalidateAll, one, change, sealedRows, read, expectIntegrity, tampering, target } =
  createSecretTamper()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let open: TestProject

beforeAll(async () => {
  ;({ service, raw, owner, open } = await start())
})
afterAll(stop)

describe('tampered keys decrypt nothing:', () => {
  const keyTables = ['environment_key', 'workspace_key']
  const keyRow = () => one('select * from environment_key where environment_id = ?', [environmentOf(open, 0)])
  const workspaceKeyRow = async () => {
    const { workspace_id } = await keyRow()
    return one('select * from workspace_key where workspace_id = ?', [workspace_id ?? null])
  }
  const expectUnreadable = async (what: string) => {
    invalidateAll()
    for (const row of [await target('secret_value', 2), await target('secret_version', 1)]) {
      expectIntegrity(await read(row), what)
    }
  }
  /** Nothing may be encrypted with a planted key. */
  const expectNoWrite = async (what: string) => {
    invalidateAll()
    const secrets = [{ key: 'FRESH', value: 'fresh' }]
    const body = { environments: [environmentOf(open, 0)], secrets }
    const answer = await service.call('POST', '/v1/workspace/main/project/open/secret', { token: owner.session, body })
    expectIntegrity(answer, what)
    expect(await raw.query("select * from secret where name = 'FRESH'")).toEqual([])
  }

  test('a flipped bit in any byte of the environment key', async () => {
    const row = await keyRow()
    await tampering(keyTables, async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await change('environment_key', row, { wrapped: flip(row.wrapped, at, 0x80) })
        await expectUnreadable(`byte ${at}`)
      }
      await expectNoWrite('flipped')
    })
  })

  test('a flipped bit in any byte of the workspace key', async () => {
    const row = await workspaceKeyRow()
    await tampering(keyTables, async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await change('workspace_key', row, { wrapped: flip(row.wrapped, at, 0x80) })
        await expectUnreadable(`byte ${at}`)
      }
      await expectNoWrite('flipped')
    })
  })

  test('the key of any other environment', async () => {
    const row = await keyRow()
    const others = await raw.query('select * from environment_key where environment_id <> ?', [environmentOf(open, 0)])
    expect(others.length).toBeGreaterThan(5)
    await tampering(keyTables, async () => {
      for (const other of others) {
        await change('environment_key', row, { wrapped: other.wrapped ?? null })
        await expectUnreadable('another')
        await expectNoWrite('another')
      }
    })
  })

  test('the key of another workspace', async () => {
    const row = await workspaceKeyRow()
    const other = await one('select * from workspace_key where workspace_id <> ?', [row.workspace_id ?? null])
    await tampering(keyTables, async () => {
      await change('workspace_key', row, { wrapped: other.wrapped ?? null })
      await expectUnreadable('another')
      await expectNoWrite('another')
    })
  })

  test.each<[string, Table, RawRow]>([
    ['another version of the environment key', 'environment_key', { version: 2 }],
    ['another version of its workspace key', 'environment_key', { workspace_key_version: 2 }],
    ['another workspace', 'environment_key', { workspace_id: 'strange' }],
    ['another version of the workspace key', 'workspace_key', { version: 2 }],
    ['an unknown root key', 'workspace_key', { root_id: '01890000-0000-7000-8000-000000000000' }],
  ])('%s', async (what, table, columns) => {
    const row = table === 'environment_key' ? await keyRow() : await workspaceKeyRow()
    await tampering(keyTables, async () => {
      await change(table, row, columns)
      await expectUnreadable(what)
      await expectNoWrite(what)
    })
  })

  test('no keys at all', async () => {
    for (const table of keyTables) {
      await tampering(keyTables, async () => {
        await raw.query(`delete from ${table}`)
        await expectUnreadable(table)
        await expectNoWrite(table)
      })
    }
  })

  test('a planted newer key is never used', async () => {
    const row = await keyRow()
    const columns = Object.keys(row)
    await tampering(keyTables, async () => {
      await raw.query(
        `insert into environment_key (${columns}) values (${columns.map(() => '?')})`,
        Object.values({ ...row, version: 2 }),
      )
      await expectNoWrite('newer')
      expect((await read(await target('secret_value', 2))).status).toBe(200)
    })
  })

  test('restored keys decrypt everything again', async () => {
    for (const row of [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]) {
      expect((await read(row)).status).toBe(200)
    }
  })
})
