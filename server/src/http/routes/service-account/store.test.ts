/** Rows of service accounts, their tokens and shares: tampering grants nothing, and a root key rotation signs them anew. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runHere } from '../../../../../test/command.ts'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { type Cell, flip, openRaw, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'
import { rotate } from '../../../../../test/rotation.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { createShareProject, type ShareProject } from '../../../../../test/share.ts'
import { newId } from '../../../crypto/id.ts'
import { countTampered } from '../../../store/integrity.ts'

const main = '/v1/workspace/main'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let project: ShareProject
let accountId: string
let token: { id: string; token: string }
let otherId: string

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
  await project.set('development', { KEY: 'x' })
  const grants = [{ role: 'member' as const, scope: { environments: [project.idOf('development')] } }]
  const account = await createServiceAccount(service, owner.session, { name: 'narrow', grants })
  accountId = account.id
  token = await createServiceToken(service, owner.session, accountId, {
    permission: 'read',
    scope: grants[0]?.scope ?? {},
  })
  otherId = (await createServiceAccount(service, owner.session, { name: 'wide' })).id
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const statusOf = async (value: string) =>
  (await project.ask('GET', '/secret?environmentId=development', undefined, value)).status
const tamperedRows = () => countTampered(service.app.services.engine, service.app.services.keys)
const one = async (table: string, id: string): Promise<RawRow> =>
  (await raw.query(`select * from ${table} where id = ?`, [id]))[0] ?? {}

async function withChanged(table: string, id: string, cells: RawRow, check: () => Promise<void>): Promise<void> {
  await raw.restoring([table], async () => {
    const set = Object.keys(cells).map((column) => `${column} = ?`)
    await raw.query(`update ${table} set ${set} where id = ?`, [...Object.values(cells), id])
    service.app.services.snapshots.clear()
    await check()
  })
  service.app.services.snapshots.clear()
}

describe('a row of a service account with', () => {
  const everything = JSON.stringify([
    { role: 'admin', scope: { all: true, teams: [], projects: [], environments: [] } },
  ])
  test.each<[string, (row: RawRow) => RawRow]>([
    ['more grants', () => ({ grants: everything })],
    ['the same grants and a space', ({ grants }) => ({ grants: `${String(grants)} ` })],
    ['another name', () => ({ name: 'renamed' })],
    ['another creation time', ({ created_at: at }) => ({ created_at: Number(at) + 1 })],
    ['another creator', () => ({ created_by: newId() })],
    ['an unknown root key', () => ({ mac_root_id: newId() })],
  ])('%s grants nothing, and the doctor command counts it', async (_what, change) => {
    expect(await statusOf(token.token)).toBe(200)
    const row = await one('service_account', accountId)
    await withChanged('service_account', accountId, change(row), async () => {
      expect(await statusOf(token.token)).toBe(401)
      expect(await tamperedRows()).toEqual(['1 service accounts'])
      const { body } = await service.call<{ id: string }[]>('GET', `${main}/service-account`, { token: owner.session })
      expect(body.map(({ id }) => id)).toEqual([otherId])
      const path = `${main}/service-account/${accountId}`
      expect((await service.call('DELETE', path, { token: owner.session })).status).toBe(404)
    })
    expect(await statusOf(token.token)).toBe(200)
    expect(await tamperedRows()).toEqual([])
  })

  test.each<[string, () => Promise<RawRow>]>([
    ['a flipped bit in its MAC', async () => ({ mac: flip((await one('service_account', accountId)).mac, 3) })],
    [
      'the grants and the MAC of another account',
      async () => {
        const { grants = null, mac = null } = await one('service_account', otherId)
        return { grants, mac }
      },
    ],
  ])('%s grants nothing, and closes the workspace', async (_what, change) => {
    await withChanged('service_account', accountId, await change(), async () => {
      expect(await statusOf(token.token)).toBe(401)
      expect(await tamperedRows()).toEqual(['1 service accounts'])
      const { status } = await service.call('GET', `${main}/service-account`, { token: owner.session })
      expect(status).toBe(503)
    })
    expect(await statusOf(token.token)).toBe(200)
  })

  test('a changed grant is reported by the command itself', async () => {
    await withChanged('service_account', accountId, { grants: everything }, async () => {
      const { code, out, err } = await runHere(['doctor'], service.settings)
      expect(code).toBe(1)
      expect(out + err).toContain('1 service accounts')
    })
  })
})

describe('a token that is moved in the database', () => {
  test('to another account, or to no account, is refused', async () => {
    for (const cell of [otherId, null] as readonly Cell[]) {
      await withChanged('token', token.id, { service_account_id: cell }, async () => {
        expect(await statusOf(token.token)).toBe(401)
        expect(await tamperedRows()).toEqual(['1 tokens'])
      })
    }
    expect(await statusOf(token.token)).toBe(200)
  })

  test('from a person to an account is refused', async () => {
    const mine = await createToken(service, owner.session)
    await withChanged('token', mine.id, { service_account_id: otherId }, async () => {
      expect(await statusOf(mine.token)).toBe(401)
    })
    expect(await statusOf(mine.token)).toBe(200)
  })
})

test('a share that is moved in the database to another owner cannot be opened', async () => {
  const robot = await createServiceToken(service, owner.session, otherId)
  const share = await project.make({ content: 'x', maxViews: 9 }, robot.token)
  const mine = await project.make({ content: 'x', maxViews: 9 })
  for (const [{ id, token }, cell] of [
    [share, accountId],
    [share, null],
    [mine, otherId],
  ] as const) {
    await withChanged('share', id, { service_account_id: cell }, async () => {
      expect((await project.view(token)).status).toBe(404)
      expect(await tamperedRows()).toEqual(['1 shares'])
    })
    expect((await project.view(token)).status).toBe(200)
  }
})

test('a root key rotation signs accounts, tokens and shares anew, and leaves a tampered row tampered', async () => {
  const robot = await createServiceToken(service, owner.session, otherId)
  const share = await project.make({ content: 'x', maxViews: 9 }, robot.token)
  const before = await one('service_account', otherId)
  await raw.query('update service_account set name = ? where id = ?', ['tampered', accountId])
  await rotate(service)
  const after = await one('service_account', otherId)
  expect(after.mac_root_id).not.toBe(before.mac_root_id)
  expect(await raw.query('select distinct mac_root_id from service_account')).toEqual([
    { mac_root_id: after.mac_root_id },
  ])
  expect(await statusOf(robot.token)).toBe(200)
  expect(await statusOf(token.token)).toBe(401)
  expect((await project.view(share.token)).status).toBe(200)
  expect(await tamperedRows()).toEqual(['1 service accounts'])
})
