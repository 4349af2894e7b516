/** A rotation on one node takes effect on the other at once, and a token revoked during it stays revoked. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createToken,
  type Database,
  exchange,
  engine as kind,
  openService,
  password,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import type { Serving } from '../../../test/process.ts'
import { awaitRehashed, rotate } from '../../../test/rotation.ts'
import { until } from '../../../test/wait.ts'
import { createServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { masterWrapKey } from '../crypto/keyring.ts'
import { createBearer, tokenPrefix } from '../crypto/token.ts'
import { createChangeFollower } from '../domain/cache/change-follower.ts'
import { createLog } from '../log.ts'
import { type Db, type Engine, readOnly, sql } from '../store/engine/sql.ts'
import { openKeys } from '../store/key/key.ts'
import { storeOver } from '../store/store.ts'
import { tokenStore } from '../store/token.ts'

const workspace = '/v1/workspace/main'

async function expectGenuineTrail(service: Pick<Serving, 'call'>, session: string): Promise<void> {
  const verdict = await service.call<AuditVerdict>('GET', `${workspace}/audit/verify`, { token: session })
  expect(verdict.body).toMatchObject({ ok: true })
}

describe('after a rotation', () => {
  let database: Database
  let service: TestService
  let owner: TestUser

  beforeEach(async () => {
    database = await createDatabase({ hasSchema: true })
    service = await openService({ ...database.settings, COFFER_EXCHANGE_RATE_LIMIT: '0' }, database.dataDir)
    owner = await registerOwner(service)
  })
  afterEach(async () => {
    await service.stop()
    await database.drop()
  })

  const status = async (on: TestService, token: string) => (await on.call('GET', `${workspace}/team`, { token })).status

  describe('with two nodes', () => {
    let other: TestService
    beforeEach(async () => {
      other = await openService(service.settings, database.dataDir)
      // Both nodes have filled caches.
      expect(await status(other, owner.session)).toBe(200)
    })
    afterEach(() => other.stop())

    test('credentials issued under the new keys are accepted by the other node at once', async () => {
      const token = await createToken(service, owner.session)
      await rotate(service)
      const issued = {
        token: (await createToken(service, owner.session)).token,
        jwt: await exchange(service, token.token),
        session: (await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } }))
          .body.accessToken,
      }
      const [ofToken, ofJwt, ofSession] = await Promise.all([
        status(other, issued.token),
        status(other, issued.jwt),
        status(other, issued.session),
      ])
      expect({ ofToken, ofJwt, ofSession }).toEqual({ ofToken: 200, ofJwt: 200, ofSession: 200 })
    })

    test('rows signed under the new root are accepted by a node that has not read the change, also many at once', async () => {
      const ids: string[] = []
      for (let index = 0; index < 10; index++) {
        const body = { name: 'Place', slug: `place-${index}` }
        const made = await service.call<{ id: string }>('POST', '/v1/workspace', { token: owner.session, body })
        ids.push(made.body.id)
      }
      const { snapshots, store } = other.app.services
      // The node never reads the change.
      store.changes.listAfter = async () => []
      await rotate(service)
      const loaded = await Promise.all(ids.map((id) => snapshots.get(id)))
      expect(loaded.map((snapshot) => snapshot?.principals.has(owner.id))).toEqual(ids.map(() => true))
    })

    test('a forged credential just before does not keep a node from loading the new root', async () => {
      const { snapshots, store } = other.app.services
      const id = await store.workspaces.findIdForAnybody('main')
      store.changes.listAfter = async () => []
      snapshots.clear()
      expect(await status(other, createBearer(tokenPrefix))).toBe(401)
      await rotate(service)
      const snapshot = await snapshots.get(id ?? '')
      expect(snapshot?.principals.has(owner.id)).toBe(true)
      expect(await status(other, owner.session)).toBe(200)
    })

    test('a forged JWT just before does not keep a node from loading the new signing key', async () => {
      const token = await createToken(service, owner.session)
      other.app.services.store.changes.listAfter = async () => []
      const head = Buffer.from(JSON.stringify({ alg: 'EdDSA', typ: 'JWT', kid: 'x' })).toString('base64url')
      expect(await status(other, `${head}.e30.AAAA`)).toBe(401)
      await rotate(service)
      const jwt = await exchange(service, token.token)
      expect(await status(other, jwt)).toBe(200)
    })

    test('forged credentials make a node read its keys a few times a second at most', async () => {
      const { engine } = other.app.services
      let reads = 0
      const all = engine.all.bind(engine)
      Object.assign(engine, {
        all: (query: Parameters<Db['all']>[0]) => {
          if (/from root_key/.test(query.strings.join(''))) reads++
          return all(query)
        },
      })
      const startedAt = performance.now()
      const asked = 200
      for (let made = 0; made < asked; made++) await status(other, createBearer(tokenPrefix))
      const seconds = Math.ceil((performance.now() - startedAt) / 1_000)
      expect(reads).toBeGreaterThan(0)
      expect(reads).toBeLessThanOrEqual(10 * (seconds + 1))
    })

    test.each([
      ['has read another change', async () => other.app.services.snapshots.clear()],
      [
        'has reloaded its keys for another reason',
        async () => {
          await other.app.services.keys.reload()
          other.app.services.snapshots.clear()
        },
      ],
    ])(
      'a token that was rehashed under the new root works on a node that has not read the rotation, but %s',
      async (_, happen) => {
        const { token } = await createToken(service, owner.session)
        expect(await status(other, token)).toBe(200)
        other.app.services.store.changes.listAfter = async () => []
        await rotate(service)
        expect(await status(service, token)).toBe(200)
        await awaitRehashed(service, 1)
        await happen()
        for (let again = 0; again < 2; again++) expect(await status(other, token)).toBe(200)
      },
    )

    test('a snapshot loaded before the rotation is dropped', async () => {
      const { snapshots } = other.app.services
      const id = (await other.app.services.store.workspaces.findIdForAnybody('main')) ?? ''
      const before = await snapshots.get(id)
      await rotate(service)
      const isForgotten = () => snapshots.peek(id) !== before || undefined
      await until(isForgotten, 120_000, 'the old snapshot is dropped')
    })

    test('the audit trail that one node signs with the new key is verified by the other at once', async () => {
      await rotate(service)
      await createToken(service, owner.session)
      await expectGenuineTrail(other, owner.session)
    })

    test('keys are read as of one moment, also during a rotation', async () => {
      const { engine, keys, now } = service.app.services
      const text = await readFile(join(database.dataDir, 'master.key'), 'utf8')
      const master = masterWrapKey(Buffer.from(text, 'base64'))
      let turned = false
      const between: Engine = {
        ...engine,
        all: async <Row>(query: Parameters<Db['all']>[0]) => {
          const rows = await engine.all<Row>(query)
          const isAboutKeys = /from (root_key|signing_key)/.test(query.strings.join(''))
          if (isAboutKeys && !turned) {
            turned = true
            await engine.transaction('turn', ({ db }) => keys.turn(db, now()))
          }
          return rows
        },
      }
      const loaded = await openKeys(between, master, now)
      expect(turned).toBe(true)
      expect(loaded.signer('jwt')).toBeDefined()
    })

    test('a node that starts during a rotation uses the new keys', async () => {
      const services = await createServices(readConfig(service.settings), createLog('silent'))
      await rotate(service)
      const follower = createChangeFollower(services)
      await follower.start()
      follower.stop()
      const { keyring, signer } = services.keys
      await services.engine.close()
      expect(keyring.active.id).toBe(service.app.services.keys.keyring.active.id)
      expect(signer('audit').id).toBe(service.app.services.keys.signer('audit').id)
    })

    /** PostgreSQL transactions overlap: true once one of them waits for a row. */
    const isSomebodyWaiting = async () => {
      if (kind === 'sqlite') return true
      const row = await service.app.services.engine.one<{ count: number }>(sql`
        select count(*) as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
      return (row?.count ?? 0) > 0
    }
    const waiting = (orDone: () => boolean) =>
      until(
        async () => orDone() || (await isSomebodyWaiting()) || undefined,
        120_000,
        'the other transaction waits or is done',
      )

    async function revoke(id: string): Promise<void> {
      const { status: code, text } = await other.call('DELETE', `${workspace}/tokens/${id}`, { token: owner.session })
      expect(code, text).toBe(200)
    }

    async function expectDead(id: string, values: readonly string[]): Promise<void> {
      const row = await service.app.services.engine.one<{ revokedAt: number | null }>(sql`
        select revoked_at as "revokedAt" from token where id = ${id}`)
      expect(row?.revokedAt).not.toBeNull()
      await until(
        async () => (await status(service, values[0] ?? '')) === 401 || undefined,
        1_000,
        'the token is refused',
      )
      for (const value of values) {
        expect(await status(service, value)).toBe(401)
        expect(await status(other, value)).toBe(401)
      }
    }

    test('a token that is revoked while its hash moves to the new root is revoked', async () => {
      const { engine, keys } = service.app.services
      const token = await createToken(service, owner.session)
      const jwt = await exchange(service, token.token)
      await rotate(service)
      await other.app.services.keys.reload()
      const { id, workspaceId } = await requireLocated(token.token)
      let revoking: Promise<void> | undefined
      let isRevoked = false
      await engine.transaction('later', async ({ db }) => {
        expect(await tokenStore(db, keys).rehash(id, workspaceId, token.token)).toBe(true)
        // The new hash is written, but not committed yet.
        revoking = revoke(id).finally(() => {
          isRevoked = true
        })
        await waiting(() => isRevoked)
      })
      await revoking
      await expectDead(id, [token.token, jwt])
    })

    test('a token that is revoked just before its hash moves to the new root stays revoked', async () => {
      const { engine, keys } = service.app.services
      const token = await createToken(service, owner.session)
      const jwt = await exchange(service, token.token)
      await rotate(service)
      await other.app.services.keys.reload()
      const { id, workspaceId } = await requireLocated(token.token)
      let revoking: Promise<void> | undefined
      let isRevoked = false
      await engine.transaction('later', async ({ db }) => {
        const afterReading: Db = {
          ...db,
          one: async <Row>(query: Parameters<Db['one']>[0]) => {
            const row = await db.one<Row>(query)
            revoking ??= revoke(id).finally(() => {
              isRevoked = true
            })
            await waiting(() => isRevoked)
            return row
          },
        }
        await tokenStore(afterReading, keys).rehash(id, workspaceId, token.token)
      })
      await revoking
      await expectDead(id, [token.token, jwt])
    })

    async function requireLocated(value: string): Promise<{ id: string; workspaceId: string }> {
      const { engine, keys } = service.app.services
      const found = await storeOver(readOnly(engine), keys).tokens.locate(value)
      if (!found) throw new Error('the token is not found')
      expect(found.isUnderOldRoot).toBe(true)
      return found
    }
  })
})
