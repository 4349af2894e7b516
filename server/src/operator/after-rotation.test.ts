/** After a rotation: existing credentials, old roots and concurrent rotations. */
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedToken } from '@coffer/contract/token'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
  createToken,
  type Database,
  exchange,
  openService,
  password,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { awaitRehashed, rotate } from '../../../test/rotation.ts'
import { openServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { asOperator } from '../domain/context.ts'
import { rotateRoot, rotateWorkspaceKey } from '../domain/workspace/key.ts'
import { createLog } from '../log.ts'
import { sql } from '../store/engine/sql.ts'
import { countRootUses } from '../store/key/rotation.ts'

const workspace = '/v1/workspace/main'

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

  const operator = ({ app }: TestService) => asOperator(app.services)
  const status = async (on: TestService, token: string) => (await on.call('GET', `${workspace}/team`, { token })).status
  const rootIds = async () => (await countRootUses(service.app.services.engine)).map(({ id }) => id)

  test('a revoked or expired token does not keep the old root', async () => {
    const [first] = await rootIds()
    const revoked = await createToken(service, owner.session)
    const expired = await createToken(service, owner.session, { expiresIn: '24h' })
    expect((await service.call('DELETE', `${workspace}/tokens/${revoked.id}`, { token: owner.session })).status).toBe(
      200,
    )
    await rotate(service)
    service.clock.offsetMs = 25 * 3_600_000
    const login = await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    expect(await status(service, login.body.accessToken)).toBe(200)
    // A job removes expired sessions; here it has no time to run.
    await service.call('POST', '/v1/auth/logout', { token: login.body.accessToken })
    await service.app.services.engine.transaction('test', ({ db }) => db.count(sql`delete from session`))
    await rotate(service)
    expect(await rootIds()).not.toContain(first)
    expect(await status(service, revoked.token)).toBe(401)
    expect(await status(service, expired.token)).toBe(401)
  })

  test('the previous value of a token that was rotated with a grace period works until its end, then releases the root', async () => {
    const [first] = await rootIds()
    const token = await createToken(service, owner.session)
    const path = `${workspace}/tokens/${token.id}/rotate`
    const next = await service.call<IssuedToken>('POST', path, { token: owner.session, body: { graceSeconds: 3_600 } })
    await rotate(service)
    expect(await status(service, token.token)).toBe(200)
    expect(await status(service, next.body.token)).toBe(200)
    service.clock.offsetMs = 2 * 3_600_000
    expect(await status(service, token.token)).toBe(401)
    expect(await status(service, next.body.token)).toBe(200)
    expect(await status(service, owner.session)).toBe(200)
    await awaitRehashed(service, 1)
    await rotate(service)
    expect(await rootIds()).not.toContain(first)
    expect(await status(service, next.body.token)).toBe(200)
  })

  test('an existing JWT is valid until it expires, and no longer', async () => {
    const token = await createToken(service, owner.session)
    const jwt = await exchange(service, token.token)
    for (let turn = 0; turn < 3; turn++) await rotate(service)
    expect(await status(service, jwt)).toBe(200)
    service.clock.offsetMs = 840_000
    expect(await status(service, jwt)).toBe(200)
    service.clock.offsetMs = 901_000
    expect(await status(service, jwt)).toBe(401)
  })

  test('the old key of a workspace is kept while reads may still need it', async () => {
    const { engine, sleep } = service.app.services
    await createProject(service, owner.session, 'api')
    const countKeys = () => engine.one<{ count: number }>(sql`select count(*) as count from workspace_key`)
    const during: unknown[] = []
    const resting = async (ms: number) => {
      during.push(ms, await countKeys())
      await sleep(0)
    }
    await rotateWorkspaceKey({ ...operator(service), sleep: resting }, 'main', () => undefined)
    expect(during).toEqual([2_000, { count: 2 }])
    expect(await countKeys()).toEqual({ count: 1 })
  })

  describe('concurrently with another root rotation', () => {
    /** Two machines that run the same command at the same time. */
    const openOperator = () => openServices(readConfig(service.settings), createLog('silent'), 'write')

    async function expectOneRoot(): Promise<void> {
      const [active, ...retired] = await countRootUses(service.app.services.engine)
      expect(active).toMatchObject({ isActive: true, workspaceKeys: 1 })
      for (const root of retired) expect(root).toMatchObject({ workspaceKeys: 0, signingKeys: 0, macs: 0 })
      expect(await status(service, owner.session)).toBe(200)
    }

    test('a rotation continues with the root that the other has just created', async () => {
      const [first, second] = [await openOperator(), await openOperator()]
      await first.engine.transaction('test', ({ db }) => first.keys.turn(db, first.now()))
      const [begun] = await rootIds()
      await rotateRoot(asOperator(second), () => undefined, 0)
      for (const one of [first, second]) await one.engine.close()
      expect((await rootIds())[0]).toBe(begun)
      await expectOneRoot()
    })

    test('a rotation leaves everything under the newest root if the other runs during its pause', async () => {
      const [first, second] = [await openOperator(), await openOperator()]
      let naps = 0
      const sleep = async () => {
        if (naps++ === 0) await rotateRoot(asOperator(second), () => undefined, 0)
      }
      await rotateRoot({ ...asOperator(first), sleep }, () => undefined)
      const newest = second.keys.keyring.active.id
      for (const one of [first, second]) await one.engine.close()
      expect((await rootIds())[0]).toBe(newest)
      await expectOneRoot()
    })
  })
})
