/** Tokens that were tampered with in the database. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { type Cell, openRaw, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { hourMs } from '../../domain/time.ts'
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

describe('a tampered token', () => {
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

  /** The values and their JWTs are refused everywhere. */
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
    ['another creator', () => ({ created_by: mallory.id })],
    ['another workspace', () => ({ workspace_id: strangeId })],
    ['another workspace with its owner as creator', () => ({ workspace_id: strangeId, created_by: stranger.id })],
    ['a later expiry', () => ({ expires_at: Date.now() + 10 ** 11 })],
    ['no expiry', () => ({ expires_at: null })],
    ['another creation time', () => ({ created_at: 1 })],
    ['another generation', () => ({ generation: 2 })],
    ['a revocation', () => ({ revoked_at: Date.now() })],
    ['a grace period', () => ({ previous_until: Date.now() + 10 ** 9 })],
    ['a narrower scope', () => ({ scope: everything.replace('true', 'false') })],
    ['a list of addresses that is not JSON', () => ({ allowed_ips: '[' })],
    ['an empty MAC', () => ({ mac: Buffer.alloc(0) })],
    ['a longer MAC', async () => ({ mac: Buffer.concat([bytesOf((await rowOf(narrow.id)).mac), Buffer.alloc(1)]) })],
    ['the MAC of another token', async () => ({ mac: (await rowOf(wide.id)).mac ?? null })],
    [
      'permissions and MAC of another token',
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

  test('is refused: hashes of two tokens swapped', async () => {
    for (const other of [wide, foreign]) {
      const [one, two] = [await rowOf(narrow.id), await rowOf(other.id)]
      await expectRefused([narrow.value, narrow.jwt, other.value, other.jwt], async () => {
        await change(narrow.id, { hash: Buffer.alloc(32) })
        await change(other.id, { hash: one.hash ?? null })
        await change(narrow.id, { hash: two.hash ?? null })
      })
    }
  })

  test('is refused: its hash as the previous value of a more powerful token', async () => {
    const { hash = null } = await rowOf(narrow.id)
    await expectRefused([narrow.value], async () => {
      await raw.query('delete from token where id = ?', [narrow.id])
      await change(wide.id, { previous_hash: hash, previous_until: Date.now() + 10 ** 9 })
    })
  })

  test('is refused: a token without its address restriction', async () => {
    for (const allowed of ['[]', '["127.0.0.1"]', '["0.0.0.0/0"]']) {
      await expectRefused([bound.value], () => change(bound.id, { allowed_ips: allowed }))
    }
  })

  test('stays refused: a revoked token with the revocation removed', async () => {
    const dead = await make(owner.session, {})
    await service.call('DELETE', `/v1/workspace/main/tokens/${dead.id}`, { token: owner.session })
    await expectRefused([dead.value, dead.jwt], () => change(dead.id, { revoked_at: null }))
  })

  test('stays refused: an expired token with a later expiry', async () => {
    service.clock.offsetMs = -25 * hourMs
    const dead = await make(owner.session, { expiresIn: '24h' })
    service.clock.offsetMs = 0
    invalidateAll()
    expect(await rightsOf(dead.value)).toEqual([])
    for (const expiresAt of [null, Date.now() + 10 ** 9]) {
      await expectRefused([dead.value, dead.jwt], () => change(dead.id, { expires_at: expiresAt }))
    }
  })

  test('stays refused: the old value of a rotated token, restored', async () => {
    const old = await make(owner.session, {})
    const { hash = null } = await rowOf(old.id)
    await service.call('POST', `/v1/workspace/main/tokens/${old.id}/rotate`, { token: owner.session, body: {} })
    await expectRefused([old.value, old.jwt], () => change(old.id, { hash }))
    await expectRefused([old.value, old.jwt], () => change(old.id, { hash, generation: 1 }))
    await expectRefused([old.value, old.jwt], () =>
      change(old.id, { previous_hash: hash, previous_until: Date.now() + 10 ** 9 }),
    )
  })

  test('is not listed, and can be neither rotated nor revoked', async () => {
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
