/** Memberships, accounts and sessions that were tampered with in the database: an error, and never more access. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { hourMs } from '../../domain/time.ts'
import { createStore } from '../../store/store.ts'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let mainId: string
let strangeId: string
let projectId: string

const malloryPassword = 'what mallory always takes'
const everything = JSON.stringify({ all: true, teams: [], projects: [], environments: [] })
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
    await createStore(db, keys).members.insert({ ...member, role: 'member', isOwner: false, scope })
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
