/** A database that was changed behind the service's back: an error each time, and never more rights or wrong data. */
import { createHash } from 'node:crypto'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../test/raw-database.ts'
import { asOperator } from '../domain/context.ts'
import { hourMs } from '../domain/time.ts'
import { rotateRoot, rotateWorkspaceKey } from '../domain/workspace/key.ts'
import { StartError } from '../open-store.ts'
import { canonicalEntry, hashEntry } from '../store/audit/entry.ts'
import { createStore } from '../store/store.ts'

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

/** What is remembered in memory is not what is tested here. */
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
/** Each has an effect where it is allowed, and is allowed to nobody but admins. */
const writes = (): Probe[] => [
  ['POST', '/v1/workspace/main/team', { name: `Team ${++attempts}` }],
  ['POST', '/v1/workspace/main/project/open/environment', { name: `env-${++attempts}` }],
  ['PUT', '/v1/workspace/main', { name: `Main ${++attempts}` }],
]

/** Everything that a credential is shown or lets happen, each thing as one line. */
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

/** The times of use and of idling move with every request. */
const withoutTimes = (key: string, value: unknown) =>
  ['lastUsedAt', 'lastUsedIp', 'expiresAt', 'createdAt', 'updatedAt'].includes(key) ? undefined : value

const isInMain = (right: string) => right.includes('/v1/workspace/main') || right.includes('"slug":"main"')

describe('a changed membership', () => {
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
    ['the same scope in another spelling', () => ({ scope: `${String(malloryRow.scope)} ` })],
    ['a scope that is not JSON', () => ({ scope: '{' })],
    ['another id', () => ({ id: unknownRoot })],
    ['another time of making', () => ({ created_at: Number(malloryRow.created_at) + 1 })],
    ['role and MAC of the owner', () => ({ role: 'admin', mac: ownerRow.mac ?? null })],
    ['all of the owner but the user', () => ({ role: 'admin', scope: everything, mac: ownerRow.mac ?? null })],
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

  test("grants nothing: somebody else's row, by its user", async () => {
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

  test('a tampered owner loses the workspace, and others keep theirs', async () => {
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

  test('is written to the log, without what it holds', async () => {
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

describe('a changed token', () => {
  type Named = { readonly id: string; readonly value: string; readonly jwt: string }
  let narrow: Named
  let wide: Named
  let bound: Named
  let foreign: Named
  let baseline: string[]

  async function make(session: string, body: object, workspace = 'main'): Promise<Named> {
    const made = await createToken(service, session, body, workspace)
    return { id: made.id, value: made.token, jwt: await exchange(service, made.token) }
  }

  beforeAll(async () => {
    narrow = await make(owner.session, { permission: 'read', scope: { projects: [projectId] } })
    wide = await make(owner.session, {})
    foreign = await make(stranger.session, {}, 'strange')
    const made = await createToken(service, owner.session, { allowedIps: ['10.0.0.0/8'] })
    bound = { id: made.id, value: made.token, jwt: '' }
    expect((await rightsOf(wide.value)).filter((right) => /POST|PUT/.test(right)).length).toBe(3)
    baseline = await rightsOf(narrow.value)
    expect(baseline.length).toBeGreaterThan(3)
    expect(baseline.filter((right) => /POST|PUT|closed|audit/.test(right))).toEqual([])
  })

  const rowOf = (id: string) => one('select * from token where id = ?', [id])
  const change = (id: string, columns: RawRow) =>
    raw.query(`update token set ${Object.keys(columns).map((column) => `${column} = ?`)} where id = ?`, [
      ...Object.values(columns),
      id,
    ])

  /** The values and their JWTs are refused wherever they go. */
  async function expectRefused(values: readonly string[], tamper: () => Promise<unknown>): Promise<void> {
    await raw.restoring(['token'], async () => {
      await tamper()
      invalidateAll()
      for (const value of values) {
        expect(await rightsOf(value)).toEqual([])
        expect((await service.call('GET', '/v1/me', { token: value })).status).toBe(401)
        expect((await service.call('POST', '/v1/auth/exchange', { token: value })).status).toBe(401)
      }
    })
    invalidateAll()
  }

  test.each<[string, () => RawRow | Promise<RawRow>]>([
    ['permission read-write', () => ({ permission: 'read-write' })],
    ['scope all', () => ({ scope: everything })],
    ['the type cli', () => ({ type: 'cli' })],
    ['another maker', () => ({ created_by: mallory.id })],
    ['another workspace', () => ({ workspace_id: strangeId })],
    ['another workspace with its owner as maker', () => ({ workspace_id: strangeId, created_by: stranger.id })],
    ['a later end', () => ({ expires_at: Date.now() + 10 ** 11 })],
    ['no end', () => ({ expires_at: null })],
    ['another time of making', () => ({ created_at: 1 })],
    ['another generation', () => ({ generation: 2 })],
    ['a revocation', () => ({ revoked_at: Date.now() })],
    ['a time of grace', () => ({ previous_until: Date.now() + 10 ** 9 })],
    ['a narrower scope', () => ({ scope: everything.replace('true', 'false') })],
    ['a list of addresses that is not JSON', () => ({ allowed_ips: '[' })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['a longer MAC', async () => ({ mac: Buffer.concat([bytesOf((await rowOf(narrow.id)).mac), Buffer.alloc(1)]) })],
    ['the MAC of another token', async () => ({ mac: (await rowOf(wide.id)).mac ?? null })],
    [
      'rights and MAC of another token',
      async () => {
        const { permission = null, scope = null, mac = null } = await rowOf(wide.id)
        return { permission, scope, mac }
      },
    ],
    ['an unknown root', () => ({ mac_root_id: unknownRoot })],
  ])('is refused: %s', async (_what, columns) => {
    await expectRefused([narrow.value, narrow.jwt], async () => change(narrow.id, await columns()))
    expect(await rightsOf(narrow.value)).toEqual(baseline)
    expect((await rightsOf(narrow.jwt)).slice(1)).toEqual(baseline.slice(1))
  })

  test('is refused: any byte of the MAC', async () => {
    const { mac } = await rowOf(narrow.id)
    await raw.restoring(['token'], async () => {
      for (let at = 0; at < 32; at++) {
        await change(narrow.id, { mac: flip(mac, at) })
        invalidateAll()
        for (const value of [narrow.value, narrow.jwt]) {
          expect((await service.call('GET', '/v1/workspace', { token: value })).status).toBe(401)
        }
      }
    })
    invalidateAll()
  })

  test('is refused: any byte of the hash', async () => {
    const { hash } = await rowOf(narrow.id)
    await raw.restoring(['token'], async () => {
      for (let at = 0; at < 32; at++) {
        await change(narrow.id, { hash: flip(hash, at) })
        invalidateAll()
        for (const value of [narrow.value, narrow.jwt]) {
          expect((await service.call('GET', '/v1/workspace', { token: value })).status).toBe(401)
        }
      }
    })
    invalidateAll()
  })

  test('is refused: hashes of two tokens exchanged', async () => {
    for (const other of [wide, foreign]) {
      const [one, two] = [await rowOf(narrow.id), await rowOf(other.id)]
      await expectRefused([narrow.value, narrow.jwt, other.value, other.jwt], async () => {
        await change(narrow.id, { hash: Buffer.alloc(32) })
        await change(other.id, { hash: one.hash ?? null })
        await change(narrow.id, { hash: two.hash ?? null })
      })
    }
  })

  test("is refused: one's own hash as the previous value of a stronger token", async () => {
    const { hash = null } = await rowOf(narrow.id)
    await expectRefused([narrow.value], async () => {
      await raw.query('delete from token where id = ?', [narrow.id])
      await change(wide.id, { previous_hash: hash, previous_until: Date.now() + 10 ** 9 })
    })
  })

  test('is refused: a token freed from its addresses', async () => {
    for (const allowed of ['[]', '["127.0.0.1"]', '["0.0.0.0/0"]']) {
      await expectRefused([bound.value], () => change(bound.id, { allowed_ips: allowed }))
    }
  })

  test('stays dead: revoked, then revived', async () => {
    const dead = await make(owner.session, {})
    await service.call('DELETE', `/v1/workspace/main/tokens/${dead.id}`, { token: owner.session })
    await expectRefused([dead.value, dead.jwt], () => change(dead.id, { revoked_at: null }))
  })

  test('stays dead: expired, then prolonged', async () => {
    service.clock.offsetMs = -25 * hourMs
    const dead = await make(owner.session, { expiresIn: '24h' })
    service.clock.offsetMs = 0
    invalidateAll()
    expect(await rightsOf(dead.value)).toEqual([])
    for (const expiresAt of [null, Date.now() + 10 ** 9]) {
      await expectRefused([dead.value, dead.jwt], () => change(dead.id, { expires_at: expiresAt }))
    }
  })

  test('stays dead: rotated, then given its old value back', async () => {
    const old = await make(owner.session, {})
    const { hash = null } = await rowOf(old.id)
    await service.call('POST', `/v1/workspace/main/tokens/${old.id}/rotate`, { token: owner.session, body: {} })
    await expectRefused([old.value, old.jwt], () => change(old.id, { hash }))
    await expectRefused([old.value, old.jwt], () => change(old.id, { hash, generation: 1 }))
    await expectRefused([old.value, old.jwt], () =>
      change(old.id, { previous_hash: hash, previous_until: Date.now() + 10 ** 9 }),
    )
  })

  test('is not in the list of tokens, and neither rotated nor revoked', async () => {
    await raw.restoring(['token'], async () => {
      await change(narrow.id, { permission: 'read-write' })
      invalidateAll()
      const token = owner.session
      const list = await service.call<{ id: string }[]>('GET', '/v1/workspace/main/tokens', { token })
      expect(list.body.map(({ id }) => id)).not.toContain(narrow.id)
      const path = `/v1/workspace/main/tokens/${narrow.id}`
      expect((await service.call('POST', `${path}/rotate`, { token, body: {} })).status).toBe(404)
      expect((await service.call('DELETE', path, { token })).status).toBe(404)
    })
    invalidateAll()
  })
})

describe('a changed account', () => {
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
      'the password hash of somebody else',
      async () => ({ password_hash: (await rowOf(mallory.id)).password_hash ?? null }),
    ],
    [
      'password hash and MAC of somebody else',
      async () => {
        const { password_hash = null, mac = null } = await rowOf(mallory.id)
        return { password_hash, mac }
      },
    ],
    ['another time of making', () => ({ created_at: 1 })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['an unknown root', () => ({ mac_root_id: unknownRoot })],
  ])('lets nobody in, by password or session: %s', async (_what, columns) => {
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

  test('lets nobody in under the address of somebody else', async () => {
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

  test('lets nobody in under the id of somebody else', async () => {
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

  test('lets nobody in with any byte of the MAC changed', async () => {
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

describe('a changed session', () => {
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
    ['a later end', () => ({ expires_at: Date.now() + 10 ** 12 })],
    ['another time of making', () => ({ created_at: 1 })],
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

  test('is refused: hashes of two sessions exchanged', async () => {
    const [one, two] = [await hashed(mallory), await hashed(owner)]
    await expectRefused([mallory.session, owner.session], async () => {
      await change(one.id, { hash: Buffer.alloc(32) })
      await change(two.id, { hash: one.hash ?? null })
      await change(one.id, { hash: two.hash ?? null })
    })
  })

  test('is refused: an expired one, prolonged', async () => {
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

describe('a changed key', () => {
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
  ])('is not used: any byte of %s.%s %s', async (table, column, where) => {
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
    ['root_key', 'none active', { is_active: 0 }, changedKeys],
    ['signing_key', 'another purpose', { purpose: 'audit' }, wrongMaster],
    ['signing_key', 'another id', { id: unknownRoot }, changedKeys],
    ['signing_key', 'an unknown root', { root_id: unknownRoot }, wrongMaster],
    ['signing_key', 'retired', { retired_at: 1 }, changedKeys],
  ])('stops the start: %s, %s', async (table, _what, columns, sentence) => {
    const where = table === 'signing_key' ? "where purpose = 'jwt'" : ''
    await raw.restoring([table], async () => {
      await raw.query(
        `update ${table} set ${Object.keys(columns).map((column) => `${column} = ?`)} ${where}`,
        Object.values(columns),
      )
      await expectNoStart(sentence)
    })
  })

  test('stops the start: the records of two signing keys exchanged', async () => {
    const jwt = await one("select * from signing_key where purpose = 'jwt'")
    const audit = await one("select * from signing_key where purpose = 'audit'")
    await raw.restoring(['signing_key'], async () => {
      await raw.query('update signing_key set wrapped = ? where id = ?', [audit.wrapped ?? null, jwt.id ?? null])
      await raw.query('update signing_key set wrapped = ? where id = ?', [jwt.wrapped ?? null, audit.id ?? null])
      await expectNoStart()
    })
  })

  test('a public key that was exchanged is not believed', async () => {
    const token = await createToken(service, owner.session)
    const jwt = await exchange(service, token.token)
    await raw.restoring(['signing_key'], async () => {
      await raw.query('update signing_key set public_key = ?', [Buffer.alloc(44)])
      await service.app.services.keys.reload()
      invalidateAll()
      expect((await service.call('GET', '/v1/me', { token: jwt })).status).toBe(200)
    })
  })

  test('no environment is made under a workspace key with any byte changed, and nothing else happens either', async () => {
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
    ['gone empty', async () => ({ wrapped: Buffer.alloc(0) })],
  ])('no environment is made under a workspace key %s', async (_what, columns) => {
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

  test('an environment key with any byte changed, or of another environment, is never moved to a new workspace key', async () => {
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

describe('a changed audit trail', () => {
  let verdict: AuditVerdict
  let length: number

  const verify = async () => {
    const answer = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const entry = (sequence: number) =>
    one('select * from audit_entry where chain_id = ? and sequence = ?', [mainId, sequence])
  const insert = (row: RawRow) => {
    const columns = Object.keys(row)
    return raw.query(`insert into audit_entry (${columns}) values (${columns.map(() => '?')})`, Object.values(row))
  }
  const setHead = (columns: RawRow) =>
    raw.query(`update audit_head set ${Object.keys(columns).map((column) => `${column} = ?`)} where chain_id = ?`, [
      ...Object.values(columns),
      mainId,
    ])
  /** As the service would hash it: an attacker can do so too, for the hash has no key. */
  const rehashed = (row: RawRow, previous: string): RawRow => {
    const text = (name: string) => String(row[name])
    const maybe = (name: string) => (row[name] === null ? null : text(name))
    const hash = hashEntry(
      previous,
      canonicalEntry({
        chainId: text('chain_id'),
        sequence: Number(row.sequence),
        id: text('id'),
        at: Number(row.at),
        actorType: text('actor_type'),
        actorId: text('actor_id'),
        actorName: text('actor_name'),
        action: text('action'),
        entityType: text('entity_type'),
        entityId: text('entity_id'),
        entityName: text('entity_name'),
        projectId: maybe('project_id'),
        environmentId: maybe('environment_id'),
        ip: text('ip'),
        userAgent: text('user_agent'),
        requestId: text('request_id'),
        outcome: text('outcome'),
        details: text('details'),
      }),
    )
    return { ...row, hash }
  }
  /** Writes the chain anew from an entry on, all hashes fitting, and the head with them. */
  async function rewriteFrom(sequence: number, change: (row: RawRow) => RawRow): Promise<void> {
    let previous = String((await entry(sequence - 1)).hash)
    for (let at = sequence; at <= length; at++) {
      const row = rehashed(at === sequence ? change(await entry(at)) : await entry(at), previous)
      await raw.query('delete from audit_entry where chain_id = ? and sequence = ?', [mainId, at])
      await insert(row)
      previous = String(row.hash)
    }
    await setHead({ hash: previous })
  }
  const restoring = (work: () => Promise<unknown>) => raw.restoring(['audit_entry', 'audit_head'], work)

  beforeAll(async () => {
    invalidateAll()
    await createTeam(service, owner.session, 'Audited')
    verdict = await verify()
    length = verdict.entries
  })

  test('is told from one that nobody touched', async () => {
    expect(verdict).toEqual({ ok: true, entries: length, head: (await entry(length)).hash })
    expect(length).toBeGreaterThan(20)
  })

  test.each([
    'id',
    'at',
    'actor_type',
    'actor_id',
    'actor_name',
    'action',
    'entity_type',
    'entity_id',
    'entity_name',
    'project_id',
    'environment_id',
    'ip',
    'user_agent',
    'request_id',
    'outcome',
    'details',
    'hash',
  ])('is found: %s of an entry', async (column) => {
    for (const sequence of [1, 7, length]) {
      await restoring(async () => {
        const value = column === 'at' ? 1 : column === 'details' ? '{"after":{}}' : 'changed'
        const where = 'where chain_id = ? and sequence = ?'
        await raw.query(`update audit_entry set ${column} = ? ${where}`, [value, mainId, sequence])
        expect(await verify()).toMatchObject({ ok: false, entries: sequence - 1, firstBroken: sequence })
      })
    }
    expect(await verify()).toEqual(verdict)
  })

  test('is found: an entry deleted', async () => {
    for (const sequence of [1, 2, 9, length - 1, length]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence = ?', [mainId, sequence])
        expect(await verify()).toMatchObject({ ok: false, firstBroken: sequence, reason: 'Entries are missing.' })
      })
    }
  })

  test('is found: an entry deleted and the rest moved up', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 5', [mainId])
      for (let at = 6; at <= length; at++) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at - 1, mainId, at])
      }
      await setHead({ sequence: length - 1 })
      expect(await verify()).toMatchObject({ ok: false, entries: 4, firstBroken: 5 })
    })
  })

  test('is found: two entries exchanged', async () => {
    const swap = async (one: number, other: number) => {
      for (const [from, to] of [
        [one, -1],
        [other, one],
        [-1, other],
      ]) {
        const values = [to ?? 0, mainId, from ?? 0]
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', values)
      }
    }
    for (const [one, other] of [
      [3, 4],
      [1, length],
      [length - 1, length],
    ] as const) {
      await restoring(async () => {
        await swap(one, other)
        expect(await verify()).toMatchObject({ ok: false, entries: one - 1, firstBroken: one })
      })
    }
  })

  test('is found: an entry inserted in the middle', async () => {
    await restoring(async () => {
      const row = await entry(5)
      for (let at = length; at >= 5; at--) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at + 1, mainId, at])
      }
      await insert(rehashed({ ...row, action: 'VIEW' }, String((await entry(4)).hash)))
      await setHead({ sequence: length + 1 })
      const found = await verify()
      // The entry itself fits its place; what follows does not fit it.
      expect(found).toMatchObject({ ok: false, entries: 5, firstBroken: 6 })
    })
  })

  test('is found: an entry inserted that does not fit its place', async () => {
    await restoring(async () => {
      const row = await entry(5)
      for (let at = length; at >= 5; at--) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at + 1, mainId, at])
      }
      await insert(row)
      await setHead({ sequence: length + 1 })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: 6 })
    })
  })

  test('is found: an entry added after the end, with or without the head', async () => {
    const added = async () => {
      const last = await entry(length)
      return rehashed({ ...last, sequence: length + 1, id: unknownRoot }, String(last.hash))
    }
    await restoring(async () => {
      const row = await added()
      await insert(row)
      await setHead({ sequence: length + 1, hash: row.hash ?? null })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length + 1 })
    })
    await restoring(async () => {
      await insert(await added())
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length + 1 })
    })
  })

  test('is found: an entry of another workspace in its place', async () => {
    await restoring(async () => {
      const foreign = await one('select * from audit_entry where chain_id = ? and sequence = 1', [strangeId])
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 1', [mainId])
      await insert({ ...foreign, chain_id: mainId })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: 1 })
    })
  })

  test('is found: the tail cut off', async () => {
    for (const left of [0, 1, length - 1]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, left])
        expect(await verify()).toMatchObject({ ok: false, entries: left, firstBroken: left + 1 })
      })
    }
  })

  test('is found: the tail cut off, and the head set back to what is left', async () => {
    for (const left of [1, 5, length - 1]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, left])
        await setHead({ sequence: left, hash: (await entry(left)).hash ?? null })
        expect(await verify()).toMatchObject({ ok: false, firstBroken: left })
      })
    }
  })

  test('is found: all of it deleted, with its head or without', async () => {
    const emptyHash = '0'.repeat(64)
    for (const erase of [
      () => setHead({ sequence: 0, hash: emptyHash, signature: null, key_id: null }),
      () => raw.query('delete from audit_head where chain_id = ?', [mainId]),
    ]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ?', [mainId])
        await erase()
        expect(await verify()).toMatchObject({ ok: false, entries: 0, firstBroken: 1 })
      })
    }
  })

  test('is found: the head deleted, though every entry is there', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_head where chain_id = ?', [mainId])
      expect((await verify()).ok).toBe(false)
    })
  })

  test.each<[string, () => Promise<RawRow>]>([
    ['hash', async () => ({ hash: createHash('sha256').update('x').digest('hex') })],
    ['signature of zeros', async () => ({ signature: Buffer.alloc(64) })],
    ['no signature', async () => ({ signature: null })],
    ['no key', async () => ({ key_id: null })],
    ['an unknown key', async () => ({ key_id: unknownRoot })],
    ['the key of the JWTs', async () => ({ key_id: service.app.services.keys.signer('jwt').id })],
    [
      'the signature of another chain',
      async () => one('select signature, key_id from audit_head where chain_id = ?', [strangeId]),
    ],
  ])('is found: %s in the head', async (_what, columns) => {
    await restoring(async () => {
      await setHead(await columns())
      expect(await verify()).toMatchObject({ ok: false, entries: length, firstBroken: length })
    })
  })

  test('is found: any byte of the signature', async () => {
    const { signature } = await one('select signature from audit_head where chain_id = ?', [mainId])
    await restoring(async () => {
      for (let at = 0; at < 64; at++) {
        await setHead({ signature: flip(signature, at) })
        expect(await verify()).toMatchObject({ ok: false, firstBroken: length })
      }
    })
  })

  test('is found: history written anew with all hashes fitting', async () => {
    await restoring(async () => {
      await rewriteFrom(5, (row) => ({ ...row, actor_name: 'somebody@example.com' }))
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length })
    })
  })

  describe('is not healed by what happens next:', () => {
    const act = () =>
      service.call('POST', '/v1/workspace/main/team', { token: owner.session, body: { name: `Later ${++attempts}` } })

    test('the tail cut off, and the head set back', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, length - 3])
        await setHead({ sequence: length - 3, hash: (await entry(length - 3)).hash ?? null })
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })

    test('history written anew with all hashes fitting', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await rewriteFrom(5, (row) => ({ ...row, actor_name: 'somebody@example.com' }))
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })

    test('all of it deleted', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await raw.query('delete from audit_entry where chain_id = ?', [mainId])
        await raw.query('delete from audit_head where chain_id = ?', [mainId])
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })
  })

  test('leaves the trails of others whole', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 3', [mainId])
      const path = '/v1/workspace/strange/audit/verify'
      const other = await service.call<AuditVerdict>('GET', path, { token: stranger.session })
      expect(other.body.ok).toBe(true)
    })
    expect(await verify()).toEqual(verdict)
  })
})

test('after a rotation of the root, the MAC of a row under the old root is worth nothing', async () => {
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
