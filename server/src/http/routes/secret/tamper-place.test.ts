/** A ciphertext belongs to one secret, environment, version and person: in any other row it is an error, never a value. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestProject, TestService, TestUser } from '../../../../../test/harness.ts'
import type { RawDatabase, RawRow } from '../../../../../test/raw-database.ts'
import { createSecretTamper, environmentOf } from '../../../../../test/secret-tamper.ts'

const { start, stop, homeOf, invalidateAll, one, change, sealedRows, read, expectIntegrity, tampering, target } =
  createSecretTamper()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let open: TestProject
let closed: TestProject
let strange: TestProject

beforeAll(async () => {
  ;({ service, raw, owner, mallory, stranger, open, closed, strange } = await start())
})
afterAll(stop)

describe('a ciphertext is an error in another place:', () => {
  const placeOf = (row: RawRow) => [row.environment_id, row.secret_id, row.owner_id ?? ''].join()

  test.each(['secret_value', 'secret_version'] as const)(
    'moved from another secret, environment, version, person, project or workspace, in %s',
    async (table) => {
      const sources = [...(await sealedRows('secret_value')), ...(await sealedRows('secret_version'))]
      const kinds = new Set<string>()
      for (const row of await sealedRows(table)) {
        await tampering([], async () => {
          for (const source of sources) {
            const isSamePlace = placeOf(source) === placeOf(row)
            if (isSamePlace && source.version === row.version) continue
            for (const column of ['secret_id', 'environment_id', 'project_id', 'workspace_id', 'owner_id', 'version']) {
              if ((source[column] ?? '') !== (row[column] ?? '')) kinds.add(column)
            }
            await change(table, row, { sealed: source.sealed ?? null })
            invalidateAll()
            expectIntegrity(await read(row), `${placeOf(source)} in ${placeOf(row)}`)
            // Also together with its version, except for an older row of the same value, which is valid.
            if (table === 'secret_version' || isSamePlace) continue
            await change(table, row, { sealed: source.sealed ?? null, version: source.version ?? null })
            invalidateAll()
            expectIntegrity(await read(row), `${placeOf(source)} with its version in ${placeOf(row)}`)
            await change(table, row, { sealed: row.sealed ?? null, version: row.version ?? null })
          }
        })
      }
      expect(kinds.size).toBe(6)
    },
  )

  test.each([0, 1, 3, -1, 1_999_999_999])('stored as version %i', async (version) => {
    const row = await target('secret_value', 2)
    await tampering([], async () => {
      await change('secret_value', row, { version })
      invalidateAll()
      expectIntegrity(await read(row), 'current')
    })
    const past = await target('secret_version', 2)
    await tampering([], async () => {
      await raw.query('delete from secret_version where environment_id = ? and secret_id = ? and version = ?', [
        past.environment_id ?? null,
        past.secret_id ?? null,
        version,
      ])
      await change('secret_version', past, { version })
      invalidateAll()
      expect((await read(past)).status).toBe(404)
      if (version > 0) expectIntegrity(await read({ ...past, version }), 'version')
    })
  })

  /** Moves the row to the key of another one and reads it there. */
  async function expectMoved(from: RawRow, to: RawRow, columns: readonly string[]): Promise<void> {
    await tampering([], async () => {
      await raw.query('delete from secret_value where environment_id = ? and secret_id = ? and owner_id = ?', [
        to.environment_id ?? null,
        to.secret_id ?? null,
        to.owner_id ?? null,
      ])
      await change('secret_value', from, Object.fromEntries(columns.map((column) => [column, to[column] ?? null])))
      invalidateAll()
      expectIntegrity(await read(to), `${placeOf(from)} moved to ${placeOf(to)}`)
    })
  }

  test('every row moved to the key of every other row', async () => {
    const rows = await sealedRows('secret_value')
    const columns = ['environment_id', 'secret_id', 'owner_id', 'workspace_id']
    for (const from of rows) {
      for (const to of rows) if (from !== to) await expectMoved(from, to, columns)
    }
  })

  test('a personal value turned into the shared one, or into that of another person', async () => {
    const shared = await target('secret_value', 2)
    for (const ownerId of ['', owner.id]) {
      await tampering([], async () => {
        await raw.query('delete from secret_value where secret_id = ? and owner_id <> ? and environment_id = ?', [
          shared.secret_id ?? null,
          mallory.id,
          environmentOf(open, 0),
        ])
        await raw.query('update secret_value set owner_id = ? where owner_id = ?', [ownerId, mallory.id])
        invalidateAll()
        expectIntegrity(await read({ ...shared, owner_id: owner.id }), `now of ${ownerId}`)
      })
    }
  })

  test('the shared value turned into a personal one', async () => {
    const shared = await target('secret_value', 2)
    await tampering([], async () => {
      await raw.query('delete from secret_value where owner_id <> ?', [''])
      await change('secret_value', shared, { owner_id: owner.id })
      invalidateAll()
      expectIntegrity(await read(shared), 'owned')
    })
  })

  test('a secret moved to another project or workspace with all its values', async () => {
    const { secret_id: id } = await target('secret_value', 2)
    for (const [project, user] of [
      [closed, owner],
      [strange, stranger],
    ] as const) {
      await tampering([], async () => {
        const { workspace_id } = await one('select workspace_id from project where id = ?', [project.id])
        const moved = [project.id, workspace_id ?? null]
        await raw.query("update secret set project_id = ?, workspace_id = ?, name = 'MOVED' where id = ?", [
          ...moved,
          id ?? null,
        ])
        const values = [environmentOf(project, 0), workspace_id ?? null, id ?? null, environmentOf(open, 0)]
        for (const table of ['secret_value', 'secret_version']) {
          const set = `update ${table} set environment_id = ?, workspace_id = ?`
          await raw.query(`${set} where secret_id = ? and environment_id = ?`, values)
        }
        invalidateAll()
        const at = `/v1/workspace/${homeOf(project)}/project/${project.id}/secret`
        for (const path of ['', '/MOVED', `/MOVED/version/1?environmentId=${environmentOf(project, 0)}`]) {
          expectIntegrity(await service.call('GET', at + path, { token: user.session }), path)
        }
      })
    }
  })

  test('an environment moved to another project with all its values', async () => {
    const { secret_id: id } = await target('secret_value', 2)
    await tampering([], async () => {
      await raw.query('delete from environment where project_id = ?', [closed.id])
      await raw.query('update environment set project_id = ? where id = ?', [closed.id, environmentOf(open, 0)])
      await raw.query("update secret set project_id = ?, name = 'MOVED' where id = ?", [closed.id, id ?? null])
      invalidateAll()
      const at = '/v1/workspace/main/project/closed/secret'
      for (const path of ['/MOVED', `/MOVED/version/1?environmentId=${environmentOf(open, 0)}`]) {
        expectIntegrity(await service.call('GET', at + path, { token: owner.session }), path)
      }
    })
  })

  test('an environment moved to another project, behind a reference', async () => {
    const path = '/v1/workspace/main/project/open/secret/REFERENCE?resolve=true'
    await tampering([], async () => {
      // The moved environment takes the name that the reference uses; the secrets stay where they were.
      const [taken, moved] = [environmentOf(open, 1), environmentOf(closed, 0)]
      const { name, folded_name } = await one('select name, folded_name from environment where id = ?', [taken])
      await raw.query("update environment set name = 'Old', folded_name = 'old' where id = ?", [taken])
      await raw.query('update environment set project_id = ?, name = ?, folded_name = ? where id = ?', [
        open.id,
        name ?? null,
        folded_name ?? null,
        moved,
      ])
      invalidateAll()
      expectIntegrity(await service.call('GET', path, { token: owner.session }), 'reference')
    })
  })
})
