/**
 * `upgrade status` and `upgrade finish` on a store of 0.1.0: nodes of that version go on writing rows until the upgrade is
 * finished, and what they wrote stays valid. SQLite has one node, whose start finishes the upgrade.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { type Description, placeFixture } from '../../../test/fixture/fixture.ts'
import {
  addUser,
  createDatabase,
  type Database,
  engine as kind,
  openService,
  startService,
  type TestService,
} from '../../../test/harness.ts'
import { writeMemberAsOldNode } from '../../../test/old-node.ts'
import { openRaw, type RawDatabase, type RawRow } from '../../../test/raw-database.ts'
import { until } from '../../../test/wait.ts'
import { newId } from '../crypto/id.ts'
import { systemChain } from '../domain/audit/event.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { findBrokenSets } from '../domain/workspace/row-set.ts'

const nothing = { all: false, teams: [], projects: [], environments: [] }
let database: Database
let service: TestService
let fixture: Description
let raw: RawDatabase
let workspace: RawRow
/** Root keys as 0.1.0 wrote them. */
let oldRoots: RawRow[]
/** Members that a node of 0.1.0 adds. */
let written = 0

beforeAll(async () => {
  database = await createDatabase()
  fixture = await placeFixture('0.1.0', database)
  const before = await openRaw(database)
  oldRoots = await before.query('select id, wrapped from root_key')
  await before.close()
  service = await openService(database.settings, database.dataDir, {}, { offsetMs: fixture.at - Date.now() })
  raw = await openRaw(service)
  const [first] = await raw.query('select id, slug from workspace order by id limit 1')
  workspace = first ?? {}
})
afterAll(async () => {
  await raw.close()
  await service.stop()
  await database.drop()
})

const run = (...words: string[]) => runHere(words, database.settings)
const doctor = async () => JSON.parse((await run('doctor', '--json')).out).find(isUpgrade)
const isUpgrade = ({ check }: { check: string }) => check === 'upgrade'

/** Status that a new member gets, whose row an old node wrote: it knows no set. */
async function enterAsOldMember(): Promise<number> {
  const { keys, snapshots } = service.app.services
  const person = await addUser(service, `old-${++written}@example.com`)
  const row = { id: newId(), workspace_id: workspace.id ?? '', user_id: person.id, is_owner: 0, created_at: 1 }
  await writeMemberAsOldNode(raw, keys, row, { role: 'developer', scope: { ...nothing, all: true } })
  snapshots.clear()
  return (await service.call('GET', `/v1/workspace/${workspace.slug}/team`, { token: person.session })).status
}

const finishedEntries = () =>
  raw.query(
    'select action, entity_id, entity_name, actor_type from audit_entry where chain_id = ? and entity_type = ?',
    [systemChain, 'upgrade'],
  )

/** On SQLite there is one node, which finishes the upgrade at its start. */
function testOfNodes(title: string, work: () => Promise<void>): void {
  if (kind === 'postgres') test(title, work)
}

testOfNodes('before the end, a node of the version before may write rows', async () => {
  expect(service.app.services.keys.level).toBe(0)
  expect(await run('upgrade', 'status')).toMatchObject({ code: 0, out: expect.stringContaining('  waits  row-set: ') })
  expect(await doctor()).toMatchObject({ level: 'note', what: 'not finished: row-set' })
  expect(await enterAsOldMember()).toBe(200)
  expect(await enterAsOldMember()).toBe(200)
})

testOfNodes('a live node of an earlier version is named, and keeps the upgrade from ending', async () => {
  const old = { id: newId(), name: 'old\u001b[2J', version: '0.1.9', level: 0, seenAt: Date.now() }
  await inQuietTransaction(service.app.services, 'test', ({ nodes }) => nodes.save(old))
  expect((await run('upgrade', 'status')).out).toContain('  node   "old\\u001b[2J": version 0.1.9, last seen')
  expect(await run('upgrade', 'finish')).toMatchObject({
    code: 1,
    err: 'The node "old\\u001b[2J" still runs version 0.1.9: upgrade it first, or stop it and wait two minutes.\n',
  })
  await inQuietTransaction(service.app.services, 'test', ({ nodes }) => nodes.remove(old.id))
  expect(service.app.services.keys.level).toBe(0)
})

test('the end adopts the rows that there are, is recorded once, and reaches running nodes', async () => {
  const { keys, store } = service.app.services
  if (kind === 'postgres') {
    const { code, out, err } = await run('upgrade', 'finish')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('  on     row-set: ')
    await until(async () => keys.level === 1 || undefined, 5_000, 'the running node follows')
  }
  expect(keys.level).toBe(1)
  expect(await run('upgrade', 'finish')).toMatchObject({
    code: 0,
    out: 'The upgrade was finished before: nothing was changed.\n',
  })
  expect((await run('upgrade', 'status')).out).toContain('The upgrade is finished (level 1).')
  expect(await doctor()).toMatchObject({ level: 'ok' })
  expect(await finishedEntries()).toEqual([
    { action: 'UPDATE', entity_id: 'level-1', entity_name: 'row-set', actor_type: 'operator' },
  ])
  const broken: object[] = []
  for await (const one of findBrokenSets(store)) broken.push(one)
  expect(broken).toEqual([])
  const owner = fixture.credentials.owner ?? ''
  const { status } = await service.call('GET', `/v1/workspace/${workspace.slug}/team`, { token: owner })
  expect(status).toBe(200)
})

test('from then on, a row that a node of the version before writes closes the workspace', async () => {
  await raw.restoring(['member'], async () => {
    expect(await enterAsOldMember()).toBe(503)
    const accepted = await run('integrity', 'accept', String(workspace.slug))
    expect(accepted).toMatchObject({ code: 0, out: expect.stringMatching(/^The rows of \S+ count as they are: \d+ /) })
    service.app.services.snapshots.clear()
    const owner = fixture.credentials.owner ?? ''
    const { status } = await service.call('GET', `/v1/workspace/${workspace.slug}/team`, { token: owner })
    expect(status).toBe(200)
  })
})

test('a new store begins with everything switched on', async () => {
  const fresh = await startService()
  expect(fresh.app.services.keys.level).toBe(1)
  await fresh.stop()
})

test('the level cannot be lowered in the database', async () => {
  const [row] = await raw.query('select key_register from instance where id = 1')
  await raw.query('update instance set key_register = null where id = 1')
  await expect(service.app.services.keys.reload()).rejects.toMatchObject({ code: 'keysChanged' })
  await raw.query('update instance set key_register = ? where id = 1', [row?.key_register ?? null])
  await service.app.services.keys.reload()
  expect(service.app.services.keys.level).toBe(1)
})

testOfNodes('each running node keeps a row, and removes it when it stops', async () => {
  const { store, version } = service.app.services
  const rows = () => store.nodes.listSeenAfter(0)
  await until(async () => (await rows()).length === 1 || undefined, 10_000, 'the node has a row')
  const other = await openService(database.settings, database.dataDir, {}, service.clock)
  await until(async () => (await rows()).length === 2 || undefined, 10_000, 'the second node has a row')
  expect(await rows()).toMatchObject([
    { version, level: 1 },
    { version, level: 1 },
  ])
  await other.stop()
  expect(await rows()).toHaveLength(1)
})

const putBack =
  'The upgrade was finished to level 1, and the register of keys says 0: older keys were put back in the database.'

test('key rows of before the upgrade, put back in the database, neither undo its end nor let it adopt rows once more', async () => {
  await service.stop()
  await raw.restoring(['instance', 'root_key', 'member'], async () => {
    await raw.query('delete from member where workspace_id = ?', [workspace.id ?? null])
    await raw.query('update instance set key_register = null where id = 1')
    for (const { id = null, wrapped = null } of oldRoots) {
      await raw.query('update root_key set wrapped = ? where id = ?', [wrapped, id])
    }
    const again = openService(database.settings, database.dataDir, {}, service.clock)
    await expect(again.then((started) => started.stop())).rejects.toThrow(putBack)
    expect(await doctor()).toMatchObject({ level: 'wrong', what: putBack })
    expect(await run('upgrade', 'finish')).toMatchObject({ code: 1, err: expect.stringContaining(putBack) })
  })
  service = await openService(database.settings, database.dataDir, {}, service.clock)
  expect(service.app.services.keys.level).toBe(1)
})
