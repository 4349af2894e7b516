/** Keys are rotated while the service runs: clients notice nothing, and a killed rotation is completed by the next. */
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
  createToken,
  type Database,
  exchange,
  password,
  registerOwner,
} from '../../../test/harness.ts'
import { type Serving, serve } from '../../../test/process.ts'
import type { Program, Settings } from '../../../test/program.ts'
import { runProgram, startProgram } from '../../../test/start-server.ts'
import { openEngine } from '../../../test/store.ts'
import { isDeep, times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { openServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { newId } from '../crypto/id.ts'
import { asOperator, type Context } from '../domain/context.ts'
import { rotateRoot, rotateWorkspaceKey } from '../domain/workspace/key.ts'
import { createLog } from '../log.ts'
import { sql } from '../store/engine/sql.ts'
import { countRootUses } from '../store/key/rotation.ts'
import { runDoctor } from './doctor/doctor.ts'

const workspace = '/v1/workspace/main'

/** Two processes share this machine with others: a full load would starve the rotation. */
const rests = { busy: times(60, 15), easy: times(250, 120) }
/** Checking a password costs as much as many other requests. */
const signInRests = { busy: times(500, 200), easy: times(1_200, 800) }

/** A client that uses the service without a pause, in every way that a rotation affects. */
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
    () => ask('a team is created', 'POST', `${workspace}/team`, holder.session, { name: `team ${run} ${count}` }),
    () =>
      ask('an environment is created', 'POST', `${workspace}/project/${holder.project}/environment`, holder.session, {
        name: `env ${run} ${count}`,
      }),
    async () => {
      const body = { name: 'fresh', permission: 'read-write', scope: { all: true }, expiresIn: '30d' }
      const made = await ask<IssuedToken>('a token is created', 'POST', `${workspace}/tokens`, holder.session, body)
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
    /** Busy while the program moves something; easy while it starts and pauses. */
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

/** After this many lines, during the moves, in the pause after them, or in the second pass. */
type Moment = number | 'moving' | 'pause' | 'second pass'
const moments: readonly Moment[] = [2, 'moving', 4, 3, 'moving', 6, 8, 'moving', 'pause', 'second pass']

describe('the service keeps running', () => {
  let database: Database
  let settings: Settings
  let service: Serving
  let session: string
  let jwt: string
  /** On a slow machine the tests together take longer than a JWT lives. */
  let renewJwt: () => Promise<void>
  const tokens: string[] = []
  const sessions: string[] = []

  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    settings = { ...database.settings, COFFER_EXCHANGE_RATE_LIMIT: '0' }
    service = await serve(settings)
    session = (await registerOwner(service)).session
    const project = await createProject(service, session, 'api')
    for (let index = 0; index < times(40, 120); index++) tokens.push((await createToken(service, session)).token)
    for (let index = 0; index < times(20, 60); index++) {
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
    renewJwt = async () => {
      jwt = await exchange(service, tokens[0] ?? '')
    }
    await renewJwt()
  })
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

  /** Without kills, commands run in this process. */
  async function operate(work: (ctx: Context) => Promise<void>): Promise<void> {
    const services = await openServices(readConfig(settings), createLog('silent'), 'write')
    await work(asOperator(services)).finally(() => services.engine.close())
  }

  async function expectHealth(): Promise<void> {
    const output: string[] = []
    expect(await runDoctor(settings, (text) => output.push(text)), output.join('')).toBe(0)
  }

  const holder = () => ({ session, tokens, jwt, project: 'api' })

  test('while the root is rotated: everything is moved, and the old root is removed once nothing needs it', async () => {
    const [first] = await rootUses()
    const load = startLoad(service, holder())
    await until(() => load.answered.size === 11 || undefined, 120_000, 'the load runs')
    const rotated = await runProgram(['keys', 'rotate-root'], settings)
    expect(rotated).toMatchObject({ code: 0, err: '' })
    expect(rotated.out).toContain('Done.\n')
    await load.stop()

    const [active, ...retired] = await rootUses()
    expect(active?.id).not.toBe(first?.id)
    expect(active).toMatchObject({ isActive: true })
    for (const root of retired)
      expect(root).toMatchObject({ isActive: false, workspaceKeys: 0, signingKeys: 0, macs: 0 })
    if (retired.length > 0) {
      const stays = `Root key ${first?.id} stays until `
      expect(rotated.out).toContain(stays)
    }

    await useAll(service, [session, jwt, ...tokens, ...sessions, ...load.fresh.sessions, ...load.fresh.jwts])
    await useAll(
      service,
      load.fresh.tokens.map(({ token }) => token),
    )
    await until(
      async () => (await rootUses()).every((root) => root.isActive || root.hashes === 0) || undefined,
      120_000,
      'every hash is under the active root',
    )
    await operate((ctx) => rotateRoot(ctx, () => undefined, 0))
    const after = await rootUses()
    expect(after.map(({ id }) => id)).not.toContain(first?.id)
    await useAll(service, [session, jwt, ...tokens.slice(0, 5), ...sessions])
    await expectGenuineTrail(service, session)
  })

  // The fast tier kills rotations of environment keys, on SQLite: environment-rotation.test.ts.
  if (isDeep) {
    test(`while the rotation of the root is killed ${moments.length} times, and the next one completes it`, async () => {
      await renewJwt()
      const load = startLoad(service, holder())
      const seen = new Set<string>()
      const kills = await killAtAll(moments, async (moment) => {
        const rotation = load.follow(startProgram(['keys', 'rotate-root'], settings))
        const isKilled = await killAt(rotation, moment, 600)
        seen.add(rotation.out().trimEnd().split('\n').at(-1) ?? '')
        return isKilled
      })
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
    })

    test(`while the rotation of a workspace key is killed ${moments.length} times, and the next one completes it`, async () => {
      await renewJwt()
      const load = startLoad(service, holder())
      const kills = await killAtAll(moments, async (moment) => {
        // If everything was moved, the rotation is completed here, so that the next one has everything to move again.
        const { keys, newest, oldest } = await keysOfMain()
        if (keys > 1 && oldest === newest) await operate((ctx) => rotateWorkspaceKey(ctx, 'main', () => undefined))
        const rotation = load.follow(startProgram(['keys', 'rotate-workspace', 'main'], settings))
        return killAt(rotation, moment, 60)
      })
      const completing = load.follow(startProgram(['keys', 'rotate-workspace', 'main'], settings))
      expect(await completing.ended).toMatchObject({ code: 0, err: '' })
      await load.stop()
      expect(kills).toBeGreaterThanOrEqual(moments.length - 2)
      const { keys, newest, oldest } = await keysOfMain()
      expect({ keys, oldest }).toEqual({ keys: 1, oldest: newest })
      expect(newest).toBeGreaterThan(1)
      // It opens every environment's key to re-wrap it, so a lost key would fail here.
      await operate((ctx) => rotateWorkspaceKey(ctx, 'main', () => undefined, 0))
      const unknown = operate((ctx) => rotateWorkspaceKey(ctx, 'nowhere', () => undefined, 0))
      await expect(unknown).rejects.toThrow('There is no workspace "nowhere".')
      await expectGenuineTrail(service, session)
    })
  }

  test('after a restart under the new keys, with every credential still valid', async () => {
    expect(await service.stop()).toMatchObject({ code: 0 })
    service = await serve(settings)
    await useAll(service, [session, jwt, ...tokens, ...sessions])
    await expectGenuineTrail(service, session)
    await expectHealth()
  })

  /** On a busy machine a program may end before the kill: then its moment is repeated. */
  async function killAtAll(chosen: readonly Moment[], kill: (moment: Moment) => Promise<boolean>): Promise<number> {
    let kills = 0
    const due = [...chosen]
    for (const moment of due) {
      if (await kill(moment)) kills++
      else if (due.length < 3 * chosen.length) due.push(moment)
    }
    return kills
  }

  /** Returns whether the program was killed before it ended. */
  async function killAt(program: Program, moment: Moment, spreadMs: number): Promise<boolean> {
    let lines = 0
    let lastLineAt = 0
    // Output is noticed at once.
    program.child.stdout?.on('data', () => {
      lines = program.out().split('\n').length - 1
      lastLineAt = performance.now()
    })
    await until(() => program.hasEnded() || lines > 0 || undefined, 120_000, 'the rotation has begun')
    const hasRested = (ms: number) => performance.now() - lastLineAt > ms
    const after = Math.random()
    const beganAt = performance.now()
    const isDue = {
      moving: () => performance.now() - beganAt > after * spreadMs,
      pause: () => hasRested(200 + after * 300),
      'second pass': () => hasRested(1_950 + after * 100),
    }
    // The program may print fewer lines; then the kill is in the pause.
    const isNow = typeof moment === 'number' ? () => lines >= moment || hasRested(1_500) : isDue[moment]
    await until(() => program.hasEnded() || isNow() || undefined, 120_000, 'the moment has come')
    program.kill('SIGKILL')
    return (await program.ended).signal === 'SIGKILL'
  }
})
