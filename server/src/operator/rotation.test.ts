/** The keys are turned while the service runs: nobody notices, a kill is made good by running it again. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
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
import { type Serving, serve } from '../../../test/process.ts'
import { type Program, runProgram, type Settings, startProgram, until } from '../../../test/program.ts'
import { openEngine } from '../../../test/store.ts'
import { isDeep } from '../../../test/tier.ts'
import { createServices, openServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { newId } from '../crypto/id.ts'
import { masterWrapKey } from '../crypto/keyring.ts'
import { createBearer, tokenPrefix } from '../crypto/token.ts'
import { createChangeFollower } from '../domain/cache/change-follower.ts'
import { asOperator, type Context } from '../domain/context.ts'
import { rotateRoot, rotateWorkspaceKey } from '../domain/workspace/key.ts'
import { createLog } from '../log.ts'
import { type Db, type Engine, sql } from '../store/engine/sql.ts'
import { openKeys } from '../store/key/key.ts'
import { countRootUses } from '../store/key/rotation.ts'
import { createStore } from '../store/store.ts'
import { tokenStore } from '../store/token.ts'
import { runDoctor } from './doctor.ts'

const workspace = '/v1/workspace/main'

/** Two processes share this machine with others: a full load would starve what is measured. */
const rests = { busy: 15, easy: 120 }
/** A password takes as much of the machine as many other requests. */
const signInRests = { busy: 200, easy: 800 }

/** Somebody who works with the service without a pause, in every way that a rotation touches. */
function startLoad(
  service: Serving,
  holder: { session: string; tokens: readonly string[]; jwt: string; project: string },
) {
  const run = newId().slice(-6)
  let isOver = false
  let pace: keyof typeof rests = 'busy'
  let count = 0
  const answered = new Map<string, number>()
  const wrong: string[] = []
  const fresh: { tokens: IssuedToken[]; sessions: string[]; jwts: string[] } = { tokens: [], sessions: [], jwts: [] }

  async function ask<Body = unknown>(
    what: string,
    method: string,
    path: string,
    token: string | undefined,
    body?: object,
  ) {
    const answer = await service.call<Body>(method, path, { token, ...(body ? { body } : {}) })
    answered.set(what, (answered.get(what) ?? 0) + 1)
    if (answer.status >= 300) wrong.push(`${what} → ${answer.status} ${answer.text}`)
    return answer
  }
  const nth = <Item>(list: readonly Item[]) => list[count % list.length]
  const signIn = async () => {
    const body = { email: 'owner@example.com', password }
    const made = await ask<SignedIn>('a person signs in', 'POST', '/v1/auth/login', undefined, body)
    if (made.status !== 200) return
    fresh.sessions.push(made.body.accessToken)
    await ask('a new session reads', 'GET', `${workspace}/team`, made.body.accessToken)
  }
  const works: (() => Promise<unknown>)[] = [
    () => ask('a session reads', 'GET', `${workspace}/team`, holder.session),
    () => ask('a token reads', 'GET', `${workspace}/project`, nth(holder.tokens)),
    () => ask('a JWT reads', 'GET', `${workspace}/team`, holder.jwt),
    () => ask('a team is made', 'POST', `${workspace}/team`, holder.session, { name: `team ${run} ${count}` }),
    () =>
      ask('an environment is made', 'POST', `${workspace}/project/${holder.project}/environment`, holder.session, {
        name: `env ${run} ${count}`,
      }),
    async () => {
      const body = { name: 'fresh', permission: 'read-write', scope: { all: true }, expiresIn: '30d' }
      const made = await ask<IssuedToken>('a token is made', 'POST', `${workspace}/tokens`, holder.session, body)
      if (made.status !== 201) return
      fresh.tokens.push(made.body)
      await ask('a new token reads', 'GET', `${workspace}/team`, made.body.token)
    },
    async () => {
      const made = await ask<{ accessToken: string }>(
        'a token is exchanged',
        'POST',
        '/v1/auth/exchange',
        nth(holder.tokens),
      )
      if (made.status !== 200) return
      fresh.jwts.push(made.body.accessToken)
      await ask('a new JWT reads', 'GET', `${workspace}/team`, made.body.accessToken)
    },
    signIn,
  ]
  const done = Promise.all(
    works.map(async (work) => {
      while (!isOver) {
        count++
        await work()
        const rest = (work === signIn ? signInRests : rests)[pace]
        await new Promise((resolve) => setTimeout(resolve, rest))
      }
    }),
  )
  return {
    answered,
    wrong,
    fresh,
    /** Busy while this one moves something; easy while it starts and pauses. */
    follow: (program: Program): Program => {
      pace = 'easy'
      let resting: NodeJS.Timeout | undefined
      program.child.stdout?.on('data', () => {
        pace = 'busy'
        clearTimeout(resting)
        resting = setTimeout(() => {
          pace = 'easy'
        }, 300)
      })
      return program
    },
    stop: async () => {
      isOver = true
      await done
      expect(wrong).toEqual([])
      expect(answered.size).toBe(11)
    },
  }
}

async function useAll(service: Pick<Serving, 'call'>, credentials: readonly string[]): Promise<void> {
  for (const token of credentials) {
    const answer = await service.call('GET', `${workspace}/team`, { token })
    expect(answer.status, answer.text).toBe(200)
  }
}

async function expectGenuineTrail(service: Pick<Serving, 'call'>, session: string): Promise<void> {
  const verdict = await service.call<AuditVerdict>('GET', `${workspace}/audit/verify`, { token: session })
  expect(verdict.body).toMatchObject({ ok: true })
}

/** After so many lines, somewhere in the midst of the moving, in the pause after it, or when that is over. */
type Moment = number | 'moving' | 'pause' | 'second pass'
const moments: readonly Moment[] = isDeep
  ? [2, 'moving', 4, 3, 'moving', 6, 8, 'moving', 'pause', 'second pass']
  : [4, 'moving', 'pause', 'second pass']

describe('the service runs on', () => {
  let database: Database
  let settings: Settings
  let service: Serving
  let session: string
  let jwt: string
  const tokens: string[] = []
  const sessions: string[] = []

  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    settings = { ...database.settings, COFFER_EXCHANGE_RATE_LIMIT: '0' }
    service = await serve(settings)
    const as = Object.assign({}, service, { settings, dataDir: database.dataDir, logs: [], clock: { offsetMs: 0 } })
    // The harness asks only through `call`: a process serves it as well as a service in this one.
    const asTestService = as as unknown as TestService
    session = (await registerOwner(asTestService)).session
    const project = await createProject(asTestService, session, 'api')
    for (let index = 0; index < 120; index++) tokens.push((await createToken(asTestService, session)).token)
    for (let index = 0; index < 60; index++) {
      const made = await service.call('POST', '/v1/workspace', {
        token: session,
        body: { name: 'W', slug: `w${index}` },
      })
      expect(made.status).toBe(201)
      const path = `${workspace}/project/${project.slug}/environment`
      expect((await service.call('POST', path, { token: session, body: { name: `first ${index}` } })).status).toBe(201)
    }
    for (let index = 0; index < 3; index++) {
      const login = await service.call<SignedIn>('POST', '/v1/auth/login', {
        body: { email: 'owner@example.com', password },
      })
      sessions.push(login.body.accessToken)
    }
    jwt = await exchange(asTestService, tokens[0] ?? '')
  }, 120_000)
  afterAll(async () => {
    await service.stop()
    await database.drop()
  })

  const rootUses = async () => {
    const store = openEngine(database.settings)
    const uses = await countRootUses(store)
    await store.close()
    return uses
  }

  async function keysOfMain(): Promise<{ keys: number; newest: number; oldest: number }> {
    const store = openEngine(database.settings)
    const [state] = await store.all<{ keys: number; newest: number; oldest: number }>(sql`
      select (select count(*) from workspace_key k where k.workspace_id = w.id) as keys,
        (select max(version) from workspace_key k where k.workspace_id = w.id) as newest,
        (select min(workspace_key_version) from environment_key e where e.workspace_id = w.id) as oldest
      from workspace w where w.slug = 'main'`)
    await store.close()
    if (!state) throw new Error('the workspace is gone')
    return state
  }

  /** Where nothing is killed, what a command does is done in this process. */
  async function operate(work: (ctx: Context) => Promise<void>): Promise<void> {
    const services = await openServices(readConfig(settings), createLog('silent'), 'write')
    await work(asOperator(services)).finally(() => services.engine.close())
  }

  async function expectHealth(): Promise<void> {
    const told: string[] = []
    expect(await runDoctor(settings, (text) => told.push(text)), told.join('')).toBe(0)
  }

  const holder = () => ({ session, tokens, jwt, project: 'api' })

  test('while the root is turned; all that can be moved is moved, and the old root goes when nobody needs it', async () => {
    const [first] = await rootUses()
    const load = startLoad(service, holder())
    await until(() => load.answered.size === 11 || undefined, 30_000, 'the load runs')
    const turned = await runProgram(['keys', 'rotate-root'], settings)
    expect(turned).toMatchObject({ code: 0, err: '' })
    expect(turned.out).toContain('Done.\n')
    await load.stop()

    const [active, ...retired] = await rootUses()
    expect(active?.id).not.toBe(first?.id)
    expect(active).toMatchObject({ isActive: true })
    for (const root of retired)
      expect(root).toMatchObject({ isActive: false, workspaceKeys: 0, signingKeys: 0, macs: 0 })
    if (retired.length > 0) {
      const stays = `Root key ${first?.id} stays until `
      expect(turned.out).toContain(stays)
    }

    await useAll(service, [session, jwt, ...tokens, ...sessions, ...load.fresh.sessions, ...load.fresh.jwts])
    await useAll(
      service,
      load.fresh.tokens.map(({ token }) => token),
    )
    await until(
      async () => (await rootUses()).every((root) => root.isActive || root.hashes === 0) || undefined,
      30_000,
      'every hash is under the active root',
    )
    await operate((ctx) => rotateRoot(ctx, () => undefined, 0))
    const after = await rootUses()
    expect(after.map(({ id }) => id)).not.toContain(first?.id)
    await useAll(service, [session, jwt, ...tokens.slice(0, 5), ...sessions])
    await expectGenuineTrail(service, session)
  }, 120_000)

  test(`while the rotation of the root is killed ${moments.length} times; the next one completes it`, async () => {
    const load = startLoad(service, holder())
    const seen = new Set<string>()
    let kills = 0
    for (const moment of moments) {
      const turning = load.follow(startProgram(['keys', 'rotate-root'], settings))
      if (await killAt(turning, moment, 600)) kills++
      seen.add(turning.out().trimEnd().split('\n').at(-1) ?? '')
    }
    const completing = load.follow(startProgram(['keys', 'rotate-root'], settings))
    expect(await completing.ended).toMatchObject({ code: 0, err: '' })
    await load.stop()
    expect(seen.size).toBeGreaterThan(1)
    expect(kills).toBeGreaterThanOrEqual(moments.length - 2)
    const [active, ...retired] = await rootUses()
    expect(active?.isActive).toBe(true)
    for (const root of retired)
      expect(root).toMatchObject({ isActive: false, workspaceKeys: 0, signingKeys: 0, macs: 0 })
    await useAll(service, [session, jwt, ...tokens, ...sessions, ...load.fresh.sessions, ...load.fresh.jwts])
    await expectGenuineTrail(service, session)
    await expectHealth()
  }, 180_000)

  test(`while the key of a workspace is turned, and killed ${moments.length} times at that`, async () => {
    const load = startLoad(service, holder())
    let kills = 0
    for (const moment of moments) {
      // Where the one before has moved all, it is completed, and the next has all to move again.
      const { keys, newest, oldest } = await keysOfMain()
      if (keys > 1 && oldest === newest) await operate((ctx) => rotateWorkspaceKey(ctx, 'main', () => undefined))
      const turning = load.follow(startProgram(['keys', 'rotate-workspace', 'main'], settings))
      if (await killAt(turning, moment, 60)) kills++
    }
    const completing = load.follow(startProgram(['keys', 'rotate-workspace', 'main'], settings))
    expect(await completing.ended).toMatchObject({ code: 0, err: '' })
    await load.stop()
    expect(kills).toBeGreaterThanOrEqual(moments.length - 2)
    const { keys, newest, oldest } = await keysOfMain()
    expect({ keys, oldest }).toEqual({ keys: 1, oldest: newest })
    expect(newest).toBeGreaterThan(1)
    // It opens every environment's key to wrap it anew: one that was lost on the way would stop it.
    await operate((ctx) => rotateWorkspaceKey(ctx, 'main', () => undefined, 0))
    const unknown = operate((ctx) => rotateWorkspaceKey(ctx, 'nowhere', () => undefined, 0))
    await expect(unknown).rejects.toThrow('There is no workspace "nowhere".')
    await expectGenuineTrail(service, session)
  }, 180_000)

  test('and starts again under the new keys with every credential as it was', async () => {
    expect(await service.stop()).toMatchObject({ code: 0 })
    service = await serve(settings)
    await useAll(service, [session, jwt, ...tokens, ...sessions])
    await expectGenuineTrail(service, session)
    await expectHealth()
  }, 60_000)

  /** Whether it has not come to its end before. */
  async function killAt(program: Program, moment: Moment, spreadMs: number): Promise<boolean> {
    let lines = 0
    let lastLineAt = 0
    // What it prints is heard at once.
    program.child.stdout?.on('data', () => {
      lines = program.out().split('\n').length - 1
      lastLineAt = performance.now()
    })
    await until(() => program.hasEnded() || lines > 0 || undefined, 20_000, 'the rotation has begun')
    const hasRested = (ms: number) => performance.now() - lastLineAt > ms
    const after = Math.random()
    const beganAt = performance.now()
    const isDue = {
      moving: () => performance.now() - beganAt > after * spreadMs,
      pause: () => hasRested(200 + after * 300),
      'second pass': () => hasRested(1_950 + after * 100),
    }
    // It may have less to print than that: then this is in the pause.
    const isNow = typeof moment === 'number' ? () => lines >= moment || hasRested(400) : isDue[moment]
    await until(() => program.hasEnded() || isNow() || undefined, 20_000, 'the moment has come')
    program.kill('SIGKILL')
    return (await program.ended).signal === 'SIGKILL'
  }
})

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
  const rotate = (on: TestService) => rotateRoot(operator(on), () => undefined, 0)
  const status = async (on: TestService, token: string) => (await on.call('GET', `${workspace}/team`, { token })).status
  const rootIds = async () => (await countRootUses(service.app.services.engine)).map(({ id }) => id)
  /** All hashes but so many are under the active root. */
  const moved = (but: number) =>
    until(
      async () => {
        const roots = await countRootUses(service.app.services.engine)
        return roots.every((root) => root.isActive || root.hashes <= but) || undefined
      },
      20_000,
      'the hashes are under the active root',
    )

  test('a token that can never be used again does not keep the old root', async () => {
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
    // Sessions that are over are removed by a job of the service; here it has no time to come round.
    await service.call('POST', '/v1/auth/logout', { token: login.body.accessToken })
    await service.app.services.engine.transaction('test', ({ db }) => db.run(sql`delete from session`))
    await rotate(service)
    expect(await rootIds()).not.toContain(first)
    expect(await status(service, revoked.token)).toBe(401)
    expect(await status(service, expired.token)).toBe(401)
  })

  test('the former value of a token that was rotated with a grace works to the end of it, and then lets the root go', async () => {
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
    await moved(1)
    await rotate(service)
    expect(await rootIds()).not.toContain(first)
    expect(await status(service, next.body.token)).toBe(200)
  })

  test('a JWT of before it is valid until it expires, and not longer', async () => {
    const token = await createToken(service, owner.session)
    const jwt = await exchange(service, token.token)
    for (let turn = 0; turn < 3; turn++) await rotate(service)
    expect(await status(service, jwt)).toBe(200)
    service.clock.offsetMs = 840_000
    expect(await status(service, jwt)).toBe(200)
    service.clock.offsetMs = 901_000
    expect(await status(service, jwt)).toBe(401)
  })

  test('of a workspace’s key the old one is there while reads that need it may be under way', async () => {
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

  describe('beside another rotation of the root', () => {
    /** As two machines do that run the same command at the same hour. */
    const openOperator = () => openServices(readConfig(service.settings), createLog('silent'), 'write')

    async function expectOneRoot(): Promise<void> {
      const [active, ...retired] = await countRootUses(service.app.services.engine)
      expect(active).toMatchObject({ isActive: true, workspaceKeys: 1 })
      for (const root of retired) expect(root).toMatchObject({ workspaceKeys: 0, signingKeys: 0, macs: 0 })
      expect(await status(service, owner.session)).toBe(200)
    }

    test('that has only just begun, it goes on with that one’s root', async () => {
      const [first, second] = [await openOperator(), await openOperator()]
      await first.engine.transaction('test', ({ db }) => first.keys.turn(db, first.now()))
      const [begun] = await rootIds()
      await rotateRoot(asOperator(second), () => undefined, 0)
      for (const one of [first, second]) await one.engine.close()
      expect((await rootIds())[0]).toBe(begun)
      await expectOneRoot()
    })

    test('that comes and goes while it waits, it leaves everything under the newest root', async () => {
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

  describe('with two nodes', () => {
    let other: TestService
    beforeEach(async () => {
      other = await openService(service.settings, database.dataDir)
      // Both have a warm memory.
      expect(await status(other, owner.session)).toBe(200)
    })
    afterEach(() => other.stop())

    test('what one node issues under the new keys is honoured by the other at once', async () => {
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

    test('what the new root vouches for is genuine to a node that has not heard of it, however much it meets at once', async () => {
      const ids: string[] = []
      for (let index = 0; index < 10; index++) {
        const body = { name: 'Place', slug: `place-${index}` }
        const made = await service.call<{ id: string }>('POST', '/v1/workspace', { token: owner.session, body })
        ids.push(made.body.id)
      }
      const { snapshots, store } = other.app.services
      // The word of the change is not read yet.
      store.changes.listAfter = async () => []
      await rotate(service)
      const loaded = await Promise.all(ids.map((id) => snapshots.get(id)))
      expect(loaded.map((snapshot) => snapshot?.membersByUser.has(owner.id))).toEqual(ids.map(() => true))
    })

    test('a made-up credential a moment before does not keep a node from the new root', async () => {
      const { snapshots, store } = other.app.services
      const id = await store.workspaces.findIdForAnybody('main')
      store.changes.listAfter = async () => []
      snapshots.clear()
      expect(await status(other, createBearer(tokenPrefix))).toBe(401)
      await rotate(service)
      const snapshot = await snapshots.get(id ?? '')
      expect(snapshot?.membersByUser.has(owner.id)).toBe(true)
      expect(await status(other, owner.session)).toBe(200)
    })

    test('a made-up JWT a moment before does not keep a node from what is signed with the new key', async () => {
      const token = await createToken(service, owner.session)
      other.app.services.store.changes.listAfter = async () => []
      const head = Buffer.from(JSON.stringify({ alg: 'EdDSA', typ: 'JWT', kid: 'x' })).toString('base64url')
      expect(await status(other, `${head}.e30.AAAA`)).toBe(401)
      await rotate(service)
      const jwt = await exchange(service, token.token)
      expect(await status(other, jwt)).toBe(200)
    })

    test('made-up credentials make a node read its keys a few times a second at most', async () => {
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
      expect(reads).toBeLessThanOrEqual(Math.min(asked / 2, 10 * (seconds + 1)))
    })

    test.each([
      ['has heard of another change', async () => other.app.services.snapshots.clear()],
      [
        'has read the keys for another reason',
        async () => {
          await other.app.services.keys.reload()
          other.app.services.snapshots.clear()
        },
      ],
    ])(
      'a token whose hash has moved to the new root lives on a node that %s but of the rotation',
      async (_, happen) => {
        const { token } = await createToken(service, owner.session)
        expect(await status(other, token)).toBe(200)
        other.app.services.store.changes.listAfter = async () => []
        await rotate(service)
        expect(await status(service, token)).toBe(200)
        await moved(1)
        await happen()
        for (let again = 0; again < 2; again++) expect(await status(other, token)).toBe(200)
      },
    )

    test('what was loaded before the new root was known is not remembered after', async () => {
      const { snapshots } = other.app.services
      const id = (await other.app.services.store.workspaces.findIdForAnybody('main')) ?? ''
      const before = await snapshots.get(id)
      await rotate(service)
      const isForgotten = () => snapshots.peek(id) !== before || undefined
      await until(isForgotten, 20_000, 'the snapshot of before is dropped')
    })

    test('the trail that one node has signed with the new key is genuine to the other at once', async () => {
      await rotate(service)
      await createToken(service, owner.session)
      await expectGenuineTrail(other, owner.session)
    })

    test('keys are read as of one moment, also when they are turned in the midst of it', async () => {
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

    test('a node that starts while they are turned uses the new ones', async () => {
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

    /** On PostgreSQL transactions overlap: true once one of them waits for a row. */
    const isSomebodyWaiting = async () => {
      if (kind === 'sqlite') return true
      const row = await service.app.services.engine.one<{ count: number }>(sql`
        select count(*) as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
      return (row?.count ?? 0) > 0
    }
    const waiting = (orDone: () => boolean) =>
      until(async () => orDone() || (await isSomebodyWaiting()) || undefined, 20_000, 'the other one waits or is done')

    async function revoke(id: string): Promise<void> {
      const { status: code, text } = await other.call('DELETE', `${workspace}/tokens/${id}`, { token: owner.session })
      expect(code, text).toBe(200)
    }

    async function expectDead(id: string, values: readonly string[]): Promise<void> {
      const row = await service.app.services.engine.one<{ revokedAt: number | null }>(sql`
        select revoked_at as "revokedAt" from token where id = ${id}`)
      expect(row?.revokedAt).not.toBeNull()
      await until(async () => (await status(service, values[0] ?? '')) === 401 || undefined, 1_000, 'it is refused')
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
        // The new hash is written and not yet committed.
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
      const found = await createStore(engine, keys).tokens.locate(value)
      if (!found) throw new Error('the token is not found')
      expect(found.isUnderOldRoot).toBe(true)
      return found
    }
  })
})
