/** Keys that were tampered with in the database. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { asOperator } from '../../domain/context.ts'
import { rotateRoot, rotateWorkspaceKey } from '../../domain/workspace/key.ts'
import { StartError } from '../../start-error.ts'
import { storeOver } from '../../store/store.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let mainId: string
let strangeId: string
let projectId: string

const malloryPassword = 'what mallory always takes'
const unknownRoot = '01890000-0000-7000-8000-000000000000'

beforeAll(async () => {
  service = await startService({ COFFER_SIGNUP: 'open', COFFER_EXCHANGE_RATE_LIMIT: '0' })
  raw = await openRaw(service)
  owner = await registerOwner(service)
  mainId = String((await one("select id from workspace where slug = 'main'")).id)
  projectId = (await createProject(service, owner.session, 'open')).id
  await createProject(service, owner.session, 'closed')
  mallory = await signUp('mallory@example.com', malloryPassword)
  const { engine, keys } = service.app.services
  await engine.transaction('test', async ({ db }) => {
    const scope = { all: false, teams: [], projects: [projectId], environments: [] }
    const member = { id: crypto.randomUUID(), workspaceId: mainId, userId: mallory.id, createdAt: Date.now() }
    await storeOver(db, keys).members.insert({ ...member, isOwner: false, grants: [{ role: 'member', scope }] })
  })
  stranger = await addUser(service, 'stranger@example.com')
  const strange = await service.call<{ id: string }>('POST', '/v1/workspace', {
    token: stranger.session,
    body: { name: 'Strange', slug: 'strange' },
  })
  strangeId = strange.body.id
  invalidateAll()
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

async function signUp(email: string, password: string): Promise<TestUser> {
  const body = { email, name: email, password }
  const answer = await service.call<SignedIn>('POST', '/v1/auth/register', { body })
  expect(answer.status, answer.text).toBe(201)
  return { id: answer.body.user.id, email, session: answer.body.accessToken }
}

/** Clears the caches, so that the tests read the database. */
function invalidateAll(): void {
  service.app.services.snapshots.clear()
  service.app.services.credentials.clear()
}

async function one(text: string, values: readonly Cell[] = []): Promise<RawRow> {
  const [row, ...rest] = await raw.query(text, values)
  if (!row || rest.length > 0) throw new Error(`${text} gives ${rest.length + (row ? 1 : 0)} rows`)
  return row
}

const bytesOf = (cell: Cell | undefined): Buffer => {
  if (!(cell instanceof Uint8Array)) throw new Error('not bytes')
  return Buffer.from(cell)
}

function flip(cell: Cell | undefined, at: number): Buffer {
  const bytes = bytesOf(cell)
  bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at)
  return bytes
}

type Probe = readonly [method: string, path: string, body?: unknown]
const reads: Probe[] = [
  ['GET', '/v1/me'],
  ['GET', '/v1/workspace'],
  ...['main', 'strange'].flatMap((slug): Probe[] => [
    ['GET', `/v1/workspace/${slug}`],
    ['GET', `/v1/workspace/${slug}/team`],
    ['GET', `/v1/workspace/${slug}/project`],
    ['GET', `/v1/workspace/${slug}/tokens`],
    ['GET', `/v1/workspace/${slug}/audit?limit=1`],
  ]),
  ['GET', '/v1/workspace/main/project/closed/environment'],
]
let attempts = 0
/** Writes that only admins may do, each with an effect. */
const writes = (): Probe[] => [
  ['POST', '/v1/workspace/main/team', { name: `Team ${++attempts}` }],
  ['POST', '/v1/workspace/main/project/open/environment', { name: `env-${++attempts}` }],
  ['PUT', '/v1/workspace/main', { name: `Main ${++attempts}` }],
]

/** Everything that a credential can read or do, one line each. */
async function rightsOf(token: string): Promise<string[]> {
  const rights: string[] = []
  for (const [method, path, body] of [...reads, ...writes()]) {
    const answer = await service.call(method, path, { token, ...(body === undefined ? {} : { body }) })
    if (answer.status >= 400) continue
    const things: unknown[] = Array.isArray(answer.body) ? answer.body : [answer.body]
    rights.push(...things.map((thing) => `${method} ${path} ${JSON.stringify(thing, withoutTimes)}`))
    if (things.length === 0) rights.push(`${method} ${path} nothing`)
  }
  return rights
}

/** Times of last use change with every request. */
const withoutTimes = (key: string, value: unknown) =>
  ['lastUsedAt', 'lastUsedIp', 'expiresAt', 'createdAt', 'updatedAt'].includes(key) ? undefined : value

const isInMain = (right: string) => right.includes('/v1/workspace/main') || right.includes('"slug":"main"')

describe('a tampered key', () => {
  const operator = () => asOperator(service.app.services)
  const integrity = expect.objectContaining({ code: 'integrity' })
  const sample = (length: number) => [0, 1, 4, 5, 17, length - 17, length - 1]

  const wrongMaster = 'The master key does not match this database'
  const changedKeys = 'The keys in this database were changed outside of Coffer'

  async function expectNoStart(sentence = wrongMaster): Promise<void> {
    const opening = openService(service.settings, service.dataDir)
    await expect(opening).rejects.toThrow(StartError)
    await expect(opening).rejects.toThrow(sentence)
  }

  test.each([
    ['root_key', 'wrapped', ''],
    ['root_key', 'check_value', ''],
    ['signing_key', 'wrapped', "where purpose = 'jwt'"],
    ['signing_key', 'wrapped', "where purpose = 'audit'"],
  ])('is not used: any byte changed in %s.%s %s', async (table, column, where) => {
    const row = await one(`select * from ${table} ${where}`)
    const length = bytesOf(row[column]).length
    await raw.restoring([table], async () => {
      for (let at = 0; at < length; at++) {
        await raw.query(`update ${table} set ${column} = ? where id = ?`, [flip(row[column], at), row.id ?? null])
        await expect(service.app.services.keys.reload(), `byte ${at}`).rejects.toThrow(integrity)
        if (sample(length).includes(at)) await expectNoStart()
      }
      for (const other of [Buffer.alloc(0), bytesOf(row[column]).subarray(0, -1), Buffer.alloc(length)]) {
        await raw.query(`update ${table} set ${column} = ? where id = ?`, [other, row.id ?? null])
        await expect(service.app.services.keys.reload()).rejects.toThrow(integrity)
        await expectNoStart()
      }
    })
    await service.app.services.keys.reload()
    expect((await service.call('GET', '/v1/me', { token: owner.session })).status).toBe(200)
  })

  test.each<[string, string, RawRow, string]>([
    ['root_key', 'another id', { id: unknownRoot }, wrongMaster],
    ['root_key', 'no active key', { is_active: 0 }, changedKeys],
    ['signing_key', 'another purpose', { purpose: 'audit' }, wrongMaster],
    ['signing_key', 'another id', { id: unknownRoot }, changedKeys],
    ['signing_key', 'an unknown root', { root_id: unknownRoot }, wrongMaster],
    ['signing_key', 'retired', { retired_at: 1 }, changedKeys],
  ])('prevents the start: %s, %s', async (table, _what, columns, sentence) => {
    const where = table === 'signing_key' ? "where purpose = 'jwt'" : ''
    await raw.restoring([table], async () => {
      await raw.query(
        `update ${table} set ${Object.keys(columns).map((column) => `${column} = ?`)} ${where}`,
        Object.values(columns),
      )
      await expectNoStart(sentence)
    })
  })

  test('prevents the start: the records of two signing keys swapped', async () => {
    const jwt = await one("select * from signing_key where purpose = 'jwt'")
    const audit = await one("select * from signing_key where purpose = 'audit'")
    await raw.restoring(['signing_key'], async () => {
      await raw.query('update signing_key set wrapped = ? where id = ?', [audit.wrapped ?? null, jwt.id ?? null])
      await raw.query('update signing_key set wrapped = ? where id = ?', [jwt.wrapped ?? null, audit.id ?? null])
      await expectNoStart()
    })
  })

  test('a replaced public key is not used', async () => {
    const token = await createToken(service, owner.session)
    const jwt = await exchange(service, token.token)
    await raw.restoring(['signing_key'], async () => {
      await raw.query('update signing_key set public_key = ?', [Buffer.alloc(44)])
      await service.app.services.keys.reload()
      invalidateAll()
      expect((await service.call('GET', '/v1/me', { token: jwt })).status).toBe(200)
    })
  })

  test('a workspace key with any byte changed creates no environment, and nothing else is changed', async () => {
    const row = await one('select * from workspace_key where workspace_id = ?', [mainId])
    const count = async () => [
      await one('select count(*) as n from environment'),
      await one('select count(*) as n from environment_key'),
      await one('select count(*) as n from audit_entry where chain_id = ?', [mainId]),
    ]
    const before = await count()
    await raw.restoring(['workspace_key'], async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await raw.query('update workspace_key set wrapped = ? where workspace_id = ?', [flip(row.wrapped, at), mainId])
        const answer = await service.call('POST', '/v1/workspace/main/project/open/environment', {
          token: owner.session,
          body: { name: `broken-${at}` },
        })
        expect(answer).toMatchObject({
          status: 500,
          body: { message: 'Stored data failed its integrity check. Ask the operator to run the doctor command.' },
        })
      }
    })
    expect(await count()).toEqual(before)
    const whole = { token: owner.session, body: { name: 'whole' } }
    expect((await service.call('POST', '/v1/workspace/main/project/open/environment', whole)).status).toBe(201)
  })

  test.each<[string, () => Promise<RawRow>]>([
    ['of another workspace', async () => one('select wrapped from workspace_key where workspace_id = ?', [strangeId])],
    ['under another version', async () => ({ version: 2 })],
    ['under an unknown root', async () => ({ root_id: unknownRoot })],
    ['without content', async () => ({ wrapped: Buffer.alloc(0) })],
  ])('no environment is created with a workspace key %s', async (_what, columns) => {
    const change = await columns()
    await raw.restoring(['workspace_key'], async () => {
      await raw.query(
        `update workspace_key set ${Object.keys(change).map((column) => `${column} = ?`)} where workspace_id = ?`,
        [...Object.values(change), mainId],
      )
      const answer = await service.call('POST', '/v1/workspace/main/project/open/environment', {
        token: owner.session,
        body: { name: `broken-${++attempts}` },
      })
      expect(answer.status).toBe(500)
    })
  })

  test('an environment key with any byte changed, or of another environment, is never rewrapped under a new workspace key', async () => {
    const rows = await raw.query('select * from environment_key where workspace_id = ? order by environment_id', [
      mainId,
    ])
    const [row, other] = rows
    if (!row || !other) throw new Error('two environments are needed')
    const change = (columns: RawRow) =>
      raw.query(
        `update environment_key set ${Object.keys(columns).map((column) => `${column} = ?`)} where environment_id = ?`,
        [...Object.values(columns), row.environment_id ?? null],
      )
    await raw.restoring(['environment_key', 'workspace_key'], async () => {
      for (let at = 0; at < bytesOf(row.wrapped).length; at++) {
        await change({ wrapped: flip(row.wrapped, at) })
        await expect(
          rotateWorkspaceKey(operator(), 'main', () => undefined, 0),
          `byte ${at}`,
        ).rejects.toThrow(integrity)
      }
      await change({ wrapped: other.wrapped ?? null })
      await expect(rotateWorkspaceKey(operator(), 'main', () => undefined, 0)).rejects.toThrow(integrity)
      await change({ wrapped: row.wrapped ?? null, version: 2 })
      await expect(rotateWorkspaceKey(operator(), 'main', () => undefined, 0)).rejects.toThrow(integrity)
      const left = await raw.query('select * from environment_key where workspace_key_version > 1')
      expect(left).toEqual([])
      await change({ version: 1 })
      await rotateWorkspaceKey(operator(), 'main', () => undefined, 0)
      expect(await raw.query('select * from workspace_key where workspace_id = ?', [mainId])).toHaveLength(1)
    })
  })
})

test('after a root key rotation, the MAC of a row under the old root is rejected', async () => {
  const before = await one('select * from member where user_id = ? and workspace_id = ?', [mallory.id, mainId])
  const rights = await rightsOf(mallory.session)
  await rotateRoot(asOperator(service.app.services), () => undefined, 0)
  invalidateAll()
  const after = await one('select * from member where user_id = ? and workspace_id = ?', [mallory.id, mainId])
  expect(after.mac_root_id).not.toBe(before.mac_root_id)
  expect(await rightsOf(mallory.session)).toEqual(rights)
  await raw.restoring(['member'], async () => {
    const set = 'update member set mac = ?, mac_root_id = ? where id = ?'
    for (const [mac, root] of [
      [after.mac, before.mac_root_id],
      [before.mac, after.mac_root_id],
    ]) {
      await raw.query(set, [mac ?? null, root ?? null, after.id ?? null])
      invalidateAll()
      expect((await rightsOf(mallory.session)).filter(isInMain)).toEqual([])
    }
  })
  invalidateAll()
})
