/** Stored identities: tampered rows grant nothing, key rotations keep them valid, and every node sees changes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
  type Database,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  createIdentity,
  federate,
  loopbackAllowed,
  startIssuer,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'
import { openRaw, type RawDatabase, type RawRow } from '../../../../../test/raw-database.ts'
import { until } from '../../../../../test/wait.ts'
import { anonymous } from '../../../domain/actor.ts'
import { asOperator } from '../../../domain/context.ts'
import { rotateRoot } from '../../../domain/workspace/key.ts'
import { flushUsage } from '../../../jobs/usage.ts'
import { countTampered } from '../../../store/integrity.ts'
import { countRootUses } from '../../../store/key/rotation.ts'

const list = '/v1/workspace/main/oidc'
const everything = JSON.stringify({ all: true, teams: [], projects: [], environments: [] })

describe('a row that was changed directly in the database', () => {
  let service: TestService
  let issuer: TestIssuer
  let owner: TestUser
  let raw: RawDatabase
  let identityId = ''
  let jwt = ''

  beforeAll(async () => {
    service = await startService(loopbackAllowed)
    issuer = await startIssuer(() => service.app.services.now())
    owner = await registerOwner(service)
    const { environments } = await createProject(service, owner.session, 'api')
    const scope = { environments: [environments[0]?.id ?? ''] }
    const { id } = await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'somebody', scope })
    identityId = id
    await service.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Other', slug: 'other' } })
    raw = await openRaw(service)
    jwt = await federate(service, await issuer.sign())
  })
  afterAll(async () => {
    await raw.close()
    await service.stop()
    await issuer.stop()
  })

  const statusOfJwt = async () => {
    // Without the caches, which are not tested here.
    service.app.services.snapshots.clear()
    service.app.services.credentials.clear()
    return (await service.call('GET', '/v1/me', { token: jwt })).status
  }

  test.each<[string, () => RawRow]>([
    ['another permission', () => ({ permission: 'read-write' })],
    ['another scope', () => ({ scope: everything })],
    ['another subject', () => ({ subject: 'mallory' })],
    ['a wider subject', () => ({ subject: '*' })],
    ['no subject', () => ({ subject: null })],
    ['other claims', () => ({ claims: '{"ref":"main"}' })],
    ['another audience', () => ({ audience: 'mallory' })],
    ['another generation', () => ({ generation: 2 })],
    ['another creation time', () => ({ created_at: 1 })],
    ['a MAC of zeros', () => ({ mac: Buffer.alloc(32) })],
    ['no MAC', () => ({ mac: Buffer.alloc(0) })],
  ])('grants nothing: %s', async (_what, change) => {
    await raw.restoring(['oidc_identity'], async () => {
      for (const [column, value] of Object.entries(change())) {
        await raw.query(`update oidc_identity set ${column} = ?`, [value])
      }
      for (const sub of ['somebody', 'mallory']) {
        for (const aud of ['coffer', 'mallory']) {
          expect((await tryFederation(service, await issuer.sign({ sub, aud, ref: 'main' }))).status).toBe(401)
        }
      }
      expect(await statusOfJwt()).toBe(401)
      expect((await service.call('GET', list, { token: owner.session })).body).toEqual([])
      expect((await service.call('GET', `${list}/${identityId}`, { token: owner.session })).status).toBe(404)
      const { engine, keys } = service.app.services
      expect(await countTampered(engine, keys)).toEqual(['1 identities'])
    })
    expect(await statusOfJwt()).toBe(200)
    expect((await tryFederation(service, await issuer.sign())).status).toBe(200)
  })

  test('stays disabled when it was enabled there', async () => {
    await raw.restoring(['oidc_identity'], async () => {
      const disabled = { token: owner.session, body: { enabled: false } }
      expect((await service.call('PUT', `${list}/${identityId}`, disabled)).status).toBe(200)
      await raw.query('update oidc_identity set is_enabled = 1')
      expect((await tryFederation(service, await issuer.sign())).status).toBe(401)
      expect(await statusOfJwt()).toBe(401)
    })
  })

  test('gives no access to another workspace', async () => {
    await raw.restoring(['oidc_identity'], async () => {
      const [other] = await raw.query("select id from workspace where slug = 'other'")
      await raw.query('update oidc_identity set workspace_id = ?', [other?.id ?? null])
      expect((await tryFederation(service, await issuer.sign(), 'other')).status).toBe(401)
      expect(await statusOfJwt()).toBe(401)
    })
  })
})

describe('with several nodes', () => {
  let database: Database
  let here: TestService
  let there: TestService
  let issuer: TestIssuer
  let owner: TestUser

  beforeAll(async () => {
    database = await createDatabase()
    const settings = { ...database.settings, ...loopbackAllowed }
    here = await openService(settings, database.dataDir)
    there = await openService(settings, database.dataDir)
    issuer = await startIssuer()
    owner = await registerOwner(here)
  })
  afterAll(async () => {
    await there.stop()
    await here.stop()
    await database.drop()
    await issuer.stop()
  })

  const status = async (node: TestService, token: string) => (await node.call('GET', '/v1/me', { token })).status

  test.each([
    ['disabled', { enabled: false }],
    ['given other rights', { permission: 'read-write' }],
    ['deleted', undefined],
  ])('an identity that is %s on one is invalid on the other within a second', async (what, body) => {
    const { id } = await createIdentity(here, owner.session, { issuer: issuer.url, subject: what })
    const token = await issuer.sign({ sub: what })
    const jwts = [await federate(here, token), await federate(there, token)]
    for (const jwt of jwts) for (const node of [here, there]) expect(await status(node, jwt)).toBe(200)
    const answer = await here.call(body ? 'PUT' : 'DELETE', `${list}/${id}`, { token: owner.session, body })
    expect(answer.status).toBe(200)
    const acknowledgedAt = performance.now()
    for (const jwt of jwts) {
      expect(await status(here, jwt)).toBe(401)
      const hasHeard = async () => (await status(there, jwt)) === 401 || undefined
      const leftMs = 1_000 - (performance.now() - acknowledgedAt)
      await until(hasHeard, leftMs, 'the other node knows of the change')
    }
    // The exchange reads the store, so it is never behind.
    expect((await tryFederation(there, token)).status).toBe(what === 'given other rights' ? 200 : 401)
  })

  test('the last use of an identity is stored by the next flush, on whichever node it was', async () => {
    const { services } = there.app
    const { usage } = services
    const { take } = usage
    // Keeps the periodic job from writing it.
    usage.take = () => ({ tokens: new Map(), identities: new Map(), sessions: new Map() })
    const flush = () => flushUsage({ ...services, usage: { ...usage, take } })
    const { id } = await createIdentity(here, owner.session, { issuer: issuer.url, subject: 'used' })
    const jwt = await federate(there, await issuer.sign({ sub: 'used' }))
    const usedAt = async () => {
      const { body } = await here.call<{ lastUsedAt: string | null }>('GET', `${list}/${id}`, { token: owner.session })
      return body.lastUsedAt
    }
    expect(await usedAt()).toBeNull()
    await flush()
    const exchangedAt = await usedAt()
    expect(exchangedAt).not.toBeNull()
    there.clock.offsetMs = 5_000
    expect(await status(there, jwt)).toBe(200)
    await flush()
    there.clock.offsetMs = 0
    usage.take = take
    expect(Date.parse((await usedAt()) ?? '')).toBeGreaterThanOrEqual(Date.parse(exchangedAt ?? '') + 4_000)
  })

  test('identities and their JWTs survive a root key rotation, and the old root is no longer needed', async () => {
    await createIdentity(here, owner.session, { issuer: issuer.url, subject: 'turned' })
    const token = await issuer.sign({ sub: 'turned' })
    const jwt = await federate(here, token)
    await rotateRoot({ ...asOperator(here.app.services), actor: anonymous }, () => undefined, 0)
    const { engine, keys } = here.app.services
    for (const root of await countRootUses(engine)) if (!root.isActive) expect(root.macs).toBe(0)
    expect(await countTampered(engine, keys)).toEqual([])
    for (const node of [here, there]) {
      expect(await status(node, jwt)).toBe(200)
      expect((await tryFederation(node, token)).status).toBe(200)
    }
  })
})
