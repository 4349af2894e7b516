/** Several nodes on one database: a change on one node takes effect on all of them. */
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

describe('a change on one node takes effect on both:', () => {
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

  /** Both nodes have cached the credentials; the second one may first have to read a change. */
  async function warm(credentials: readonly string[], path?: string): Promise<void> {
    for (const token of credentials) {
      expect(await statusOf(here, token, path)).toBe(200)
      const known = async () => (await statusOf(there, token, path)) === 200 || undefined
      await until(known, allowedMs, 'the other node accepts the credential')
    }
  }

  /** The change takes effect here on the very next request, and there within a second of the acknowledgement. */
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
      await until(hasHeard, leftMs, 'the other node applies the change')
      // The old state does not return.
      expect(await statusOf(there, token, path)).toBe(expected)
    }
    for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
  }

  async function tokenAndJwt(session = owner.session, workspace = 'main') {
    const issued = await createToken(here, session, {}, workspace)
    return { ...issued, jwt: await exchange(here, issued.token) }
  }

  test('a revoked token and its JWTs are refused', async () => {
    for (let round = 0; round < 5; round++) {
      const { id, token, jwt } = await tokenAndJwt()
      await warm([token, jwt])
      const revoke = () => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })
      await expectEverywhere(revoke, [token, jwt], 401)
    }
  })

  test('a rotated token is accepted only with its new value, and JWTs of the old value are refused', async () => {
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

  test('a token rotated with a grace period is accepted with both values until the period ends', async () => {
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

  test('a logged-out session is refused, and other sessions of the person are accepted', async () => {
    const login = await here.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    const session = login.body.accessToken
    await warm([session, owner.session])
    await expectEverywhere(() => here.call('POST', '/v1/auth/logout', { token: session }), [session], 401)
    await warm([owner.session])
  })

  test('sessions ended by another session or by a password change are refused', async () => {
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

  test('a lowered role restricts the sessions, tokens and JWTs of that person', async () => {
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

  test('a narrowed scope hides the rest', async () => {
    const admin = await addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    const other = await createProject(here, owner.session, `other-${made}`)
    const path = `${main}/project/api`
    await warm([admin.session, token, jwt], path)
    const scope = { all: false, teams: [], projects: [other.id], environments: [] }
    await expectEverywhere(() => changeMember(admin, { scope }), [admin.session, token, jwt], 404, path)
    await warm([admin.session, token, jwt], `${main}/project/other-${made}`)
  })

  test('a removed member loses the workspace and every token created in it', async () => {
    const admin = await addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    await warm([admin.session, token, jwt])
    await expectEverywhere(() => changeMember(admin, 'remove'), [token, jwt], 401)
    for (const node of [here, there]) expect(await statusOf(node, admin.session)).toBe(404)
  })

  test('a deleted workspace and its tokens are gone', async () => {
    const slug = `short-${made}`
    await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Short', slug } })
    const { token, jwt } = await tokenAndJwt(owner.session, slug)
    const path = `/v1/workspace/${slug}/team`
    await warm([owner.session, token, jwt], path)
    const remove = () => here.call('DELETE', `/v1/workspace/${slug}`, { token: owner.session })
    await expectEverywhere(remove, [token, jwt], 401, path)
    for (const node of [here, there]) expect(await statusOf(node, owner.session, path)).toBe(404)
  })

  test('a deleted project is gone', async () => {
    const slug = `gone-${made}`
    await createProject(here, owner.session, slug)
    await warm([owner.session], `${main}/project/${slug}`)
    const remove = () => here.call('DELETE', `${main}/project/${slug}`, { token: owner.session })
    await expectEverywhere(remove, [owner.session], 404, `${main}/project/${slug}`)
  })

  test('a hundred tokens revoked at once are all refused within a second', async () => {
    const tokens = await Promise.all(Array.from({ length: 100 }, () => createToken(here, owner.session)))
    await Promise.all(tokens.map(({ token }) => statusOf(there, token)))
    const answers = await Promise.all(
      tokens.map(({ id }) => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })),
    )
    const acknowledgedAt = performance.now()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(here, token))))).toEqual(new Set([401]))
    await until(() => performance.now() - acknowledgedAt > allowedMs || undefined, 2_000, 'one second has passed')
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(there, token))))).toEqual(new Set([401]))
  })

  /** Delays the results of a node's reads of the change log until they are released. */
  async function holdLog(node: TestService) {
    const { changes } = node.app.services.store
    const listAfter = changes.listAfter.bind(changes)
    const { promise: released, resolve: releaseResult } = Promise.withResolvers<void>()
    let isHeld = false
    changes.listAfter = async (sequence) => {
      const list = await listAfter(sequence)
      isHeld = true
      await released
      return list
    }
    const resumeReads = () => {
      changes.listAfter = listAfter
    }
    await until(() => isHeld || undefined, 20_000, 'the result is held')
    return { releaseResult, resumeReads }
  }

  /** A token revoked here is refused there, although the old result arrives after the second that a node has to apply it. */
  async function expectRevoked(id: string, token: string, releaseResult: () => void): Promise<void> {
    expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
    const acknowledgedAt = performance.now()
    await until(() => performance.now() - acknowledgedAt > allowedMs || undefined, 2_000, 'one second has passed')
    const status = statusOf(there, token)
    // The request has reached the node before the old result arrives.
    for (let round = 0; round < 3; round++) await there.call('GET', '/healthz')
    releaseResult()
    expect(await status).toBe(401)
  }

  test('a node that reads the change log slowly does not respond from its cache', async () => {
    const { id, token } = await createToken(here, owner.session)
    await warm([token])
    const { releaseResult, resumeReads } = await holdLog(there)
    resumeReads()
    await expectRevoked(id, token, releaseResult)
  })

  test('a node that was cut off during very many changes does not respond from its cache', async () => {
    const { id, token } = await createToken(here, owner.session)
    // Otherwise the pending change from creating the token would clear the cache.
    await hear(there)
    await warm([token])
    const { releaseResult, resumeReads } = await holdLog(there)
    resumeReads()
    await here.app.services.engine.transaction('test', ({ db }) =>
      db.runMany(
        Array.from({ length: 25_000 }, () => Date.now()),
        (at) => sql`insert into change (subject, subject_id, at) values (${'user'}, ${'nobody'}, ${at})`,
      ),
    )
    await expectRevoked(id, token, releaseResult)
  })

  test.each([
    ['finds no changes at all', async () => undefined],
    [
      'finds only later changes',
      async () => {
        const slug = `elsewhere-${made}`
        await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Elsewhere', slug } })
        const rename = { token: owner.session, body: { name: 'Renamed' } }
        expect((await here.call('PUT', `/v1/workspace/${slug}`, rename)).status).toBe(200)
      },
    ],
  ])('a node that was cut off from the store for over an hour clears its cache, even if it %s', async (_, later) => {
    const { id, token } = await createToken(here, owner.session)
    await warm([token])
    const { releaseResult, resumeReads } = await holdLog(there)
    expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
    const hourLater = 3_660_000
    await cleanUp({ ...here.app.services, now: () => Date.now() + hourLater })
    expect(await here.app.services.store.changes.newest()).toBe(0)
    await later()
    const isSilent = (await here.app.services.store.changes.newest()) === 0
    if (isSilent) there.clock.offsetMs = hourLater
    resumeReads()
    releaseResult()
    await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is refused there')
    there.clock.offsetMs = 0
  })

  test('a node that missed more changes than it can look up one by one follows later ones', async () => {
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
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is refused there')
    }
  })

  test('a node follows a change log with more missing numbers than a call can have arguments', async () => {
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
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is refused there')
    }
  })

  test('dry runs and refused writes use no number of the change log', async () => {
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
      // Refused at the very end, after the rename was written.
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
  ])('a secret %s by a node that does not know a new environment yet is so in that environment too', async (...row) => {
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
    // Repeated reads are served from the cache.
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

  test('a change that commits late is not missed by a new node', async () => {
    if (kind === 'sqlite') {
      // SQLite has one writer at a time: numbers are in the order of the commits.
      expect(here.app.services.engine.kind).toBe('sqlite')
      return
    }
    const workspaceId = await requireWorkspaceId('main')
    const member = await addAdmin()
    const client = await connectPostgres(database.settings.COFFER_DATABASE_URL)
    // Like a removal on a third node that has its number but has not committed yet.
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
        'the new node applies the change, or the time is up',
      )
      expect(await statusOf(fresh, memberToken.token)).toBe(401)
    } finally {
      await client.end()
      await fresh.stop()
    }
  })

  test('both nodes record the use of the same tokens without conflicts', async () => {
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

  test('neither node has logged an error', () => {
    for (const { logs } of [here, there]) {
      expect(logs.filter((line) => /"level":"(error|warn)"/.test(line))).toEqual([])
    }
  })
})
