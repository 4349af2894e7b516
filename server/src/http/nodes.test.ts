/** Several nodes on one database: what one of them changes holds on all of them, and a store that is away comes back. */
import type { SignedIn } from '@coffer/contract/auth'
import type { Role, Scope } from '@coffer/contract/field'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hear } from '../../../test/change-log.ts'
import {
  addUser,
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
import { connectPostgres } from '../../../test/postgres-client.ts'
import { until } from '../../../test/program.ts'
import { everything } from '../domain/scope.ts'
import { cleanUp } from '../jobs/cleanup.ts'
import { flushUsage } from '../jobs/usage.ts'
import { sql } from '../store/engine/sql.ts'

const main = '/v1/workspace/main'
const allowedMs = 1_000

describe('what one node changes', () => {
  let database: Database
  let here: TestService
  let there: TestService
  let owner: TestUser
  let made = 0

  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    const settings = { ...database.settings, COFFER_EXCHANGE_RATE_LIMIT: '0' }
    here = await openService(settings, database.dataDir)
    owner = await registerOwner(here)
    there = await openService(settings, database.dataDir)
    await createProject(here, owner.session, 'api')
  })
  afterAll(async () => {
    await there.stop()
    await here.stop()
    await database.drop()
  })
  beforeEach(() => {
    made++
  })

  const statusOf = async (node: TestService, token: string, path = `${main}/team`) =>
    (await node.call('GET', path, { token })).status

  /** Both nodes have seen the credentials, and answer from memory; the other one may first have to hear of a change. */
  async function warm(credentials: readonly string[], path?: string): Promise<void> {
    for (const token of credentials) {
      expect(await statusOf(here, token, path)).toBe(200)
      const known = async () => (await statusOf(there, token, path)) === 200 || undefined
      await until(known, allowedMs, 'the other node knows it')
    }
  }

  /** Honoured here by the very next request, and there within a second of the acknowledgement. */
  async function expectEverywhere(
    change: () => Promise<unknown>,
    credentials: readonly string[],
    expected: number,
    path?: string,
  ): Promise<void> {
    await change()
    const acknowledgedAt = performance.now()
    for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
    for (const token of credentials) {
      const hasHeard = async () => (await statusOf(there, token, path)) === expected || undefined
      const leftMs = allowedMs - (performance.now() - acknowledgedAt)
      await until(hasHeard, leftMs, 'the other node has heard of it')
      // And it does not come back.
      expect(await statusOf(there, token, path)).toBe(expected)
    }
    for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
  }

  async function tokenAndJwt(session = owner.session, workspace = 'main') {
    const issued = await createToken(here, session, {}, workspace)
    return { ...issued, jwt: await exchange(here, issued.token) }
  }

  test('a token that is revoked is dead, and its JWTs with it', async () => {
    for (let round = 0; round < 5; round++) {
      const { id, token, jwt } = await tokenAndJwt()
      await warm([token, jwt])
      const revoke = () => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })
      await expectEverywhere(revoke, [token, jwt], 401)
    }
  })

  test('a token that is rotated lives by its new value alone, JWTs of the old one are dead', async () => {
    const { id, token, jwt } = await tokenAndJwt()
    await warm([token, jwt])
    let next = ''
    const rotate = async () => {
      const answer = await here.call<IssuedToken>('POST', `${main}/tokens/${id}/rotate`, { token: owner.session })
      next = answer.body.token
    }
    await expectEverywhere(rotate, [token, jwt], 401)
    await warm([next])
    expect(await statusOf(there, await exchange(there, next))).toBe(200)
  })

  test('a token that is rotated with a grace lives by both values on both nodes until its end', async () => {
    const { id, token, jwt } = await tokenAndJwt()
    await warm([token, jwt])
    const body = { graceSeconds: 60 }
    const next = await here.call<IssuedToken>('POST', `${main}/tokens/${id}/rotate`, { token: owner.session, body })
    await warm([token, jwt, next.body.token])
    for (const node of [here, there]) node.clock.offsetMs = 61_000
    for (const node of [here, there]) {
      expect([await statusOf(node, token), await statusOf(node, jwt), await statusOf(node, next.body.token)]).toEqual([
        401, 401, 200,
      ])
    }
    for (const node of [here, there]) node.clock.offsetMs = 0
  })

  test('a session that is signed out is dead, and no other of that person', async () => {
    const login = await here.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    const session = login.body.accessToken
    await warm([session, owner.session])
    await expectEverywhere(() => here.call('POST', '/v1/auth/logout', { token: session }), [session], 401)
    await warm([owner.session])
  })

  test('sessions that are ended from another one are dead, and so are those that a new password ends', async () => {
    const person = await addAdmin()
    const body = { email: person.email, password }
    const signIn = async () => (await here.call<SignedIn>('POST', '/v1/auth/login', { body })).body.accessToken
    const first = [await signIn(), await signIn()]
    await warm([person.session, ...first])
    await expectEverywhere(() => here.call('DELETE', '/v1/me/session', { token: person.session }), first, 401)
    const second = await signIn()
    await warm([person.session, second])
    const change = { currentPassword: password, newPassword: 'another long password' }
    await expectEverywhere(
      () => here.call('PUT', '/v1/me/password', { token: person.session, body: change }),
      [second],
      401,
    )
    await warm([person.session])
  })

  async function changeMember(
    { memberId }: TestUser,
    change: { role?: Role; scope?: Scope } | 'remove',
  ): Promise<void> {
    const method = change === 'remove' ? 'DELETE' : 'PUT'
    const body = change === 'remove' ? {} : { body: change }
    const { status, text } = await here.call(method, `${main}/rbac/${memberId}`, { token: owner.session, ...body })
    expect(status, text).toBe(200)
  }

  async function requireWorkspaceId(slug: string): Promise<string> {
    const id = await here.app.services.store.workspaces.findIdForAnybody(slug)
    if (id === undefined) throw new Error(`there is no workspace ${slug}`)
    return id
  }

  async function addAdmin(): Promise<TestUser> {
    const workspaceId = await requireWorkspaceId('main')
    return addUser(here, `admin-${made}@example.com`, { workspaceId, role: 'admin', scope: everything })
  }

  test('a role that is lowered bounds sessions, tokens and JWTs of that person', async () => {
    const admin = await addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    const audit = `${main}/audit`
    await warm([admin.session, token, jwt], audit)
    await expectEverywhere(() => changeMember(admin, { role: 'member' }), [admin.session, token, jwt], 403, audit)
    for (const node of [here, there]) {
      for (const credential of [admin.session, token, jwt]) {
        const body = { name: `not made ${made}` }
        expect((await node.call('POST', `${main}/team`, { token: credential, body })).status).toBe(403)
      }
    }
  })

  test('a scope that is narrowed hides the rest', async () => {
    const admin = await addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    const other = await createProject(here, owner.session, `other-${made}`)
    const path = `${main}/project/api`
    await warm([admin.session, token, jwt], path)
    const scope = { all: false, teams: [], projects: [other.id], environments: [] }
    await expectEverywhere(() => changeMember(admin, { scope }), [admin.session, token, jwt], 404, path)
    await warm([admin.session, token, jwt], `${main}/project/other-${made}`)
  })

  test('a member who is removed has lost the workspace, and every token made in it', async () => {
    const admin = await addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    await warm([admin.session, token, jwt])
    await expectEverywhere(() => changeMember(admin, 'remove'), [token, jwt], 401)
    for (const node of [here, there]) expect(await statusOf(node, admin.session)).toBe(404)
  })

  test('a workspace that is deleted is gone with its tokens', async () => {
    const slug = `short-${made}`
    await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Short', slug } })
    const { token, jwt } = await tokenAndJwt(owner.session, slug)
    const path = `/v1/workspace/${slug}/team`
    await warm([owner.session, token, jwt], path)
    const remove = () => here.call('DELETE', `/v1/workspace/${slug}`, { token: owner.session })
    await expectEverywhere(remove, [token, jwt], 401, path)
    for (const node of [here, there]) expect(await statusOf(node, owner.session, path)).toBe(404)
  })

  test('a project that is deleted is gone', async () => {
    const slug = `gone-${made}`
    await createProject(here, owner.session, slug)
    await warm([owner.session], `${main}/project/${slug}`)
    const remove = () => here.call('DELETE', `${main}/project/${slug}`, { token: owner.session })
    await expectEverywhere(remove, [owner.session], 404, `${main}/project/${slug}`)
  })

  test('a hundred tokens that are revoked at once are all dead within the second', async () => {
    const tokens = await Promise.all(Array.from({ length: 100 }, () => createToken(here, owner.session)))
    await Promise.all(tokens.map(({ token }) => statusOf(there, token)))
    const answers = await Promise.all(
      tokens.map(({ id }) => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })),
    )
    const acknowledgedAt = performance.now()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(here, token))))).toEqual(new Set([401]))
    await until(() => performance.now() - acknowledgedAt > allowedMs || undefined, 2_000, 'the second is over')
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(there, token))))).toEqual(new Set([401]))
  })

  /** What the store has answered about the log is long on its way, and so is all that the node asks until it may ask again. */
  async function holdLog(node: TestService) {
    const { changes } = node.app.services.store
    const listAfter = changes.listAfter.bind(changes)
    const { promise: released, resolve: releaseAnswer } = Promise.withResolvers<void>()
    let isHeld = false
    changes.listAfter = async (sequence) => {
      const list = await listAfter(sequence)
      isHeld = true
      await released
      return list
    }
    const letAsk = () => {
      changes.listAfter = listAfter
    }
    await until(() => isHeld || undefined, 20_000, 'the answer is held')
    return { releaseAnswer, letAsk }
  }

  /** Revoked here, it opens nothing there, although the old answer comes in after the second that a node has to hear of it. */
  async function expectRevoked(id: string, token: string, releaseAnswer: () => void): Promise<void> {
    expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
    const acknowledgedAt = performance.now()
    await until(() => performance.now() - acknowledgedAt > allowedMs || undefined, 2_000, 'the second is over')
    const asked = statusOf(there, token)
    // The request has reached the node before the old answer comes in.
    for (let round = 0; round < 3; round++) await there.call('GET', '/healthz')
    releaseAnswer()
    expect(await asked).toBe(401)
  }

  test('a node that reads the log slowly does not answer from what it knew before', async () => {
    const { id, token } = await createToken(here, owner.session)
    await warm([token])
    const { releaseAnswer, letAsk } = await holdLog(there)
    letAsk()
    await expectRevoked(id, token, releaseAnswer)
  })

  test('a node that was cut off while very much changed answers from nothing that it knew before', async () => {
    const { id, token } = await createToken(here, owner.session)
    // Or what it still has to hear of the token's making would make it forget.
    await hear(there)
    await warm([token])
    const { releaseAnswer, letAsk } = await holdLog(there)
    letAsk()
    await here.app.services.engine.transaction('test', ({ db }) =>
      db.runMany(
        Array.from({ length: 25_000 }, () => Date.now()),
        (at) => sql`insert into change (subject, subject_id, at) values (${'user'}, ${'nobody'}, ${at})`,
      ),
    )
    await expectRevoked(id, token, releaseAnswer)
  })

  test.each([
    ['hears nothing of it any more', async () => undefined],
    [
      'hears only of later changes',
      async () => {
        const slug = `elsewhere-${made}`
        await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Elsewhere', slug } })
        const rename = { token: owner.session, body: { name: 'Renamed' } }
        expect((await here.call('PUT', `/v1/workspace/${slug}`, rename)).status).toBe(200)
      },
    ],
  ])(
    'a node that was cut off from the store for over an hour forgets everything, also where it %s',
    async (_, later) => {
      const { id, token } = await createToken(here, owner.session)
      await warm([token])
      const { releaseAnswer, letAsk } = await holdLog(there)
      expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
      const hourLater = 3_660_000
      await cleanUp({ ...here.app.services, now: () => Date.now() + hourLater })
      expect(await here.app.services.store.changes.newest()).toBe(0)
      await later()
      const isSilent = (await here.app.services.store.changes.newest()) === 0
      if (isSilent) there.clock.offsetMs = hourLater
      letAsk()
      releaseAnswer()
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is dead there')
      there.clock.offsetMs = 0
    },
  )

  test('a node that was cut off from more changes than it could look for one by one hears of later ones', async () => {
    const { engine } = here.app.services
    const missed = 200_000
    await warm([owner.session])
    await cleanUp({ ...here.app.services, now: () => Date.now() + 3_660_000 })
    await engine.transaction('test', ({ db }) =>
      db.run(
        engine.kind === 'sqlite'
          ? sql`update sqlite_sequence set seq = seq + ${missed} where name = 'change'`
          : sql`select setval(pg_get_serial_sequence('change', 'sequence'),
              nextval(pg_get_serial_sequence('change', 'sequence')) + ${missed})`,
      ),
    )
    for (let round = 0; round < 2; round++) {
      const { id, token } = await createToken(here, owner.session)
      await hear(there)
      await warm([token])
      expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is dead there')
    }
  })

  test('a node follows a log with more missing numbers than a call can have arguments', async () => {
    const { engine } = here.app.services
    await createProject(here, owner.session, `before-${made}`)
    await hear(there)
    await engine.transaction('test', ({ db }) =>
      db.run(
        engine.kind === 'sqlite'
          ? sql`update sqlite_sequence set seq = seq + ${200_000} where name = 'change'`
          : sql`select setval(pg_get_serial_sequence('change', 'sequence'),
              nextval(pg_get_serial_sequence('change', 'sequence')) + ${200_000})`,
      ),
    )
    for (let round = 0; round < 2; round++) {
      const { id, token } = await createToken(here, owner.session)
      await warm([token])
      expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is dead there')
    }
  })

  test('dry runs and refused writes take no number of the log of changes', async () => {
    const { changes } = here.app.services.store
    const token = owner.session
    const batch = (body: object) =>
      here.call('POST', `${api}/secret/batch`, { token, body: { environmentId: 'development', ...body } })
    const set = (value: string) => ({ op: 'set', key: `KEY_${made}`, value })
    expect((await batch({ operations: [set('first')] })).status).toBe(200)
    const before = await changes.newest()
    for (let round = 0; round < 5; round++) {
      expect((await batch({ operations: [set('dry')], dryRun: true })).status).toBe(200)
      const body = { environments: ['development', 'staging'], secrets: [{ key: `DRY_${made}`, value: 'dry' }] }
      expect((await here.call('POST', `${api}/secret`, { token, body: { ...body, dryRun: true } })).status).toBe(200)
      // Refused last of all, after the rename was written.
      const cycle = { op: 'set', key: `OTHER_${made}`, value: `\${RENAMED_${made}}` }
      const rename = { op: 'rename', key: `KEY_${made}`, to: `RENAMED_${made}` }
      const back = { ...cycle, key: `RENAMED_${made}`, value: `\${OTHER_${made}}` }
      expect((await batch({ operations: [rename, cycle, back] })).status).toBe(409)
    }
    expect((await batch({ operations: [set('second')] })).status).toBe(200)
    expect(await changes.newest()).toBe(before + 1)
  })

  const api = `${main}/project/api`
  const untouched = { values: [] }

  test.each([
    ['purged', 'DELETE', '?purge=true', undefined, { status: 404, total: 0 }],
    ['trashed', 'DELETE', '', undefined, { status: 404, total: 0 }],
    ['renamed', 'PUT', '', { ...untouched, name: 'ANOTHER_NAME' }, { status: 404, total: 1 }],
    ['described', 'PUT', '', { ...untouched, note: 'a new note' }, { status: 200, total: 1, note: 'a new note' }],
  ])('a secret that is %s by a node which has not heard of a new environment is so there too', async (...row) => {
    const [, method, query, body, expected] = row
    const key = `KEY_${made}`
    const token = owner.session
    const secrets = [{ key, value: 'first' }]
    await here.call('POST', `${api}/secret`, { token, body: { environments: ['development'], secrets } })
    await warm([token], `${api}/secret/${key}?environmentId=development`)
    const { snapshots } = there.app.services
    const stale = snapshots.peek(await requireWorkspaceId('main'))
    const name = `new-${made}`
    const { id } = (await here.call<{ id: string }>('POST', `${api}/environment`, { token, body: { name } })).body
    const path = `${api}/secret/${key}`
    await here.call('PUT', `${path}/value`, { token, body: { environmentId: id, value: 'second' } })
    const read = () => here.call<{ note?: string }>('GET', `${path}?environmentId=${id}`, { token })
    await hear(here)
    // What is asked for again is answered from memory.
    for (let again = 0; again < 3; again++) expect((await read()).status).toBe(200)
    const peek = snapshots.peek
    snapshots.peek = () => stale
    const change = { token, ...(body && { body: { name: key, ...body } }) }
    const answer = await there.call(method, `${path}${query}`, change).finally(() => {
      snapshots.peek = peek
    })
    expect(answer.status, answer.text).toBe(200)
    const found = async () => {
      const { status, body } = await read()
      const { note } = body
      const list = await here.call<{ id: string; totalSecrets: number }[]>('GET', `${api}/environment`, { token })
      const total = list.body.find((environment) => environment.id === id)?.totalSecrets
      return { status, total, ...(status === 200 && { note }) }
    }
    await expect.poll(found, { timeout: 20_000 }).toEqual(expected)
  })

  test('a change that commits late is not missed by a node that has just started', async () => {
    if (kind === 'sqlite') {
      // One writer at a time: numbers are given in the order of the commits.
      expect(here.app.services.engine.kind).toBe('sqlite')
      return
    }
    const workspaceId = await requireWorkspaceId('main')
    const member = await addAdmin()
    const client = await connectPostgres(database.settings.COFFER_DATABASE_URL)
    // As a removal on a third node that has its number already, and has not committed yet.
    await client.query('begin')
    const insert = 'insert into change (subject, subject_id, at) values ($1, $2, $3)'
    await client.query(insert, ['workspace', workspaceId, Date.now()])
    await client.query('delete from member where workspace_id = $1 and user_id = $2', [workspaceId, member.id])
    await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Later', slug: `later-${made}` } })
    await here.call('PUT', `/v1/workspace/later-${made}`, { token: owner.session, body: { name: 'A later number' } })
    const fresh = await openService(here.settings, database.dataDir)
    try {
      expect(await statusOf(fresh, member.session)).toBe(200)
      const memberToken = await createToken(fresh, member.session)
      expect(await statusOf(fresh, memberToken.token)).toBe(200)
      await client.query('commit')
      const committedAt = performance.now()
      await until(
        async () =>
          (await statusOf(fresh, memberToken.token)) === 401 || performance.now() - committedAt > 1_500 || undefined,
        3_000,
        'the new node has heard of it, or never will',
      )
      expect(await statusOf(fresh, memberToken.token)).toBe(401)
    } finally {
      await client.end()
      await fresh.stop()
    }
  })

  test('both nodes note the use of the same tokens without getting into each other’s way', async () => {
    const tokens = await Promise.all(Array.from({ length: 150 }, () => createToken(here, owner.session)))
    for (let round = 0; round < 3; round++) {
      for (const node of [here, there]) {
        const order = node === here ? tokens : tokens.toReversed()
        for (const { token } of order) expect(await statusOf(node, token)).toBe(200)
      }
      const flushes = [here, there].map((node) => flushUsage(node.app.services).then(() => 'written', String))
      expect(await Promise.all(flushes)).toEqual(['written', 'written'])
    }
    const rows = await here.app.services.engine.all<{ id: string }>(sql`
      select id from token where last_used_at is null`)
    expect(tokens.filter(({ id }) => rows.some((row) => row.id === id))).toEqual([])
  })

  test('neither node has met an error', () => {
    for (const { logs } of [here, there]) {
      expect(logs.filter((line) => /"level":"(error|warn)"/.test(line))).toEqual([])
    }
  })
})
