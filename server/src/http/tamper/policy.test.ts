/** A policy that was tampered with in the database closes its workspace; it never opens it. */
import { openPolicy } from '@coffer/contract/policy'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { bytesOf, flip, openRaw, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { rotate } from '../../../../test/rotation.ts'
import { unknownRoot } from '../../../../test/tampered-workspace.ts'
import { countTampered } from '../../store/integrity.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let other: string
let share: string
let ways: string[]

const strict = { ...openPolicy, maxTokenDays: 30, allowedIps: ['127.0.0.1'] }
const closed = {
  status: 503,
  body: {
    message:
      'The policy of this workspace failed its integrity check, so the workspace is closed. Ask the operator to run the doctor command.',
  },
}

beforeAll(async () => {
  service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '0' })
  raw = await openRaw(service)
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
  const made = await service.call<{ id: string }>('POST', '/v1/workspace', {
    token: owner.session,
    body: { name: 'Other', slug: 'other' },
  })
  other = made.body.id
  const { token } = await createToken(service, owner.session)
  ways = [owner.session, token, await exchange(service, token)]
  const shared = await service.call<{ token: string }>('POST', '/v1/workspace/main/project/api/secret-share', {
    token: owner.session,
    body: { content: 'shared', expiresIn: 3_600, maxViews: 100 },
  })
  share = shared.body.token
  for (const slug of ['main', 'other']) {
    const body = slug === 'main' ? strict : { ...openPolicy, maxTokenDays: 5 }
    const set = await service.call('PUT', `/v1/workspace/${slug}/policy`, { token: owner.session, body })
    expect(set.status, set.text).toBe(200)
  }
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const readTeams = (token: string, slug = 'main') => service.call('GET', `/v1/workspace/${slug}/team`, { token })
const meta = async () => (await service.call('GET', `/v1/share/${share}/meta`)).status
const rowOf = async (isOther: boolean): Promise<RawRow> => {
  const rows = await raw.query('select * from workspace_policy')
  return rows.find((row) => (row.workspace_id === other) === isOther) ?? {}
}

async function change(columns: RawRow): Promise<void> {
  await raw.query(
    `update workspace_policy set ${Object.keys(columns).map((column) => `${column} = ?`)} where workspace_id <> ?`,
    [...Object.values(columns), other],
  )
}

test.each<[what: string, columns: (row: RawRow, other: RawRow) => RawRow]>([
  ['the open policy', () => ({ document: JSON.stringify(openPolicy) })],
  ['a longer life of tokens', (row) => ({ document: String(row.document).replace('30', '31') })],
  ['more addresses', (row) => ({ document: String(row.document).replace('127.0.0.1', '0.0.0.0/0') })],
  ['a text that is not JSON', () => ({ document: '{' })],
  ['an empty text', () => ({ document: '' })],
  ['another time', (row) => ({ updated_at: Number(row.updated_at) + 1 })],
  ['a flipped MAC', (row) => ({ mac: flip(bytesOf(row.mac), 0) })],
  [
    'the whole row of another workspace',
    (_row, { document, updated_at = 0, mac = null }) => ({ document: String(document), updated_at, mac }),
  ],
  ['an unknown root', () => ({ mac_root_id: unknownRoot })],
])('%s closes the workspace for everyone, is logged, and doctor counts it', async (_what, columns) => {
  const [row, foreign] = [await rowOf(false), await rowOf(true)]
  const { snapshots, engine, keys } = service.app.services
  await raw.restoring(['workspace_policy'], async () => {
    await change(columns(row, foreign))
    snapshots.clear()
    service.logs.length = 0
    for (const token of ways) expect(await readTeams(token)).toMatchObject(closed)
    const put = await service.call('PUT', '/v1/workspace/main/policy', { token: owner.session, body: openPolicy })
    expect(put).toMatchObject(closed)
    expect(await service.call('POST', '/v1/auth/exchange', { token: ways[1] })).toMatchObject(closed)
    expect(await meta()).toBe(404)
    expect(service.logs.filter((line) => line.includes('the workspace is closed'))).not.toEqual([])
    expect(await countTampered(engine, keys)).toEqual(['1 workspace policies'])
    // Other workspaces, and the list of all, still work.
    expect((await readTeams(owner.session, 'other')).status).toBe(200)
    const listed = await service.call<{ slug: string }[]>('GET', '/v1/workspace', { token: owner.session })
    expect(listed.body.map(({ slug }) => slug)).toEqual(['main', 'other'])
  })
  snapshots.clear()
  for (const token of ways) expect((await readTeams(token)).status).toBe(200)
  expect(await meta()).toBe(200)
})

test('a rotation of the root keys keeps policies valid, and gives a tampered one no new MAC', async () => {
  const before = await rowOf(false)
  await rotate(service)
  const after = await rowOf(false)
  expect(after.mac_root_id).not.toBe(before.mac_root_id)
  const { snapshots, engine, keys, store } = service.app.services
  snapshots.clear()
  expect((await readTeams(owner.session)).status).toBe(200)
  expect(await store.policies.find(other)).toMatchObject({ maxTokenDays: 5 })
  expect(await countTampered(engine, keys)).toEqual([])
  await raw.restoring(['workspace_policy'], async () => {
    await change({ document: JSON.stringify(openPolicy) })
    await rotate(service)
    expect((await rowOf(false)).mac_root_id).not.toBe(after.mac_root_id)
    snapshots.clear()
    expect(await readTeams(owner.session)).toMatchObject(closed)
    expect(await countTampered(engine, keys)).toEqual(['1 workspace policies'])
  })
})
