/** The change log between nodes: a node that reads it late, after a gap or not at all serves nothing outdated. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hear } from '../../../test/change-log.ts'
import {
  createProject,
  createToken,
  engine as kind,
  openService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { connectPostgres } from '../../../test/postgres-client.ts'
import { allowedMs, openTwoNodes, statusOf, type TwoNodes } from '../../../test/two-nodes.ts'
import { until } from '../../../test/wait.ts'
import { openRowSet, removeRow, sealRowSet } from '../crypto/row-set.ts'
import { Failure } from '../failure.ts'
import { cleanUp } from '../jobs/cleanup.ts'
import { sql } from '../store/engine/sql.ts'

const main = '/v1/workspace/main'

describe('a change on one node takes effect on both:', () => {
  let nodes: TwoNodes
  let here: TestService
  let there: TestService
  let owner: TestUser
  let made = 0

  beforeAll(async () => {
    nodes = await openTwoNodes()
    here = nodes.here
    there = nodes.there
    owner = nodes.owner
  })
  afterAll(() => nodes.stop())
  beforeEach(() => {
    made++
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
    await until(() => isHeld || undefined, 120_000, 'the result is held')
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
    await nodes.warm([token])
    const { releaseResult, resumeReads } = await holdLog(there)
    resumeReads()
    await expectRevoked(id, token, releaseResult)
  })

  test('a node that was cut off during very many changes does not respond from its cache', async () => {
    const { id, token } = await createToken(here, owner.session)
    // Otherwise the pending change from creating the token would clear the cache.
    await hear(there)
    await nodes.warm([token])
    const { releaseResult, resumeReads } = await holdLog(there)
    resumeReads()
    // One statement: on SQLite, a job of the other node would block this process while it waits for a long transaction.
    await here.app.services.engine.transaction('test', ({ db }) =>
      db.count(sql`
        with recursive many (number) as (select 1 union all select number + 1 from many where number < 25000)
        insert into change (subject, subject_id, at) select 'user', 'nobody', ${Date.now()} from many`),
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
    await nodes.warm([token])
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
    await nodes.warm([owner.session])
    await cleanUp({ ...here.app.services, now: () => Date.now() + 3_660_000 })
    await engine.transaction('test', ({ db }) =>
      db.count(
        engine.kind === 'sqlite'
          ? sql`update sqlite_sequence set seq = seq + ${missed} where name = 'change'`
          : sql`select setval(pg_get_serial_sequence('change', 'sequence'),
              nextval(pg_get_serial_sequence('change', 'sequence')) + ${missed})`,
      ),
    )
    for (let round = 0; round < 2; round++) {
      const { id, token } = await createToken(here, owner.session)
      await hear(there)
      await nodes.warm([token])
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
    await nodes.warm([token], `${api}/secret/${key}?environmentId=development`)
    const { snapshots } = there.app.services
    const stale = snapshots.peek(nodes.mainId)
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
    await expect.poll(found).toEqual(expected)
  })

  test('a change that commits late is not missed by a new node', async () => {
    if (kind === 'sqlite') {
      // SQLite has one writer at a time: numbers are in the order of the commits.
      expect(here.app.services.engine.kind).toBe('sqlite')
      return
    }
    const workspaceId = nodes.mainId
    const member = await nodes.addAdmin()
    const client = await connectPostgres(nodes.database.settings.COFFER_DATABASE_URL)
    // Like a removal on a third node that has its number but has not committed yet.
    await client.query('begin')
    const insert = 'insert into change (subject, subject_id, at) values ($1, $2, $3)'
    await client.query(insert, ['workspace', workspaceId, Date.now()])
    const removal = 'delete from member where workspace_id = $1 and user_id = $2 returning id, mac'
    const removed = (await client.query(removal, [workspaceId, member.id])).rows[0]
    const place = { workspaceId, kind: 'access' }
    const found = 'select sealed, root_id from row_set where workspace_id = $1 and kind = $2'
    const set = (await client.query(found, [workspaceId, place.kind])).rows[0]
    const root = await here.app.services.keys.requireRoot(set.root_id)
    const left = sealRowSet(root, place, removeRow(openRowSet(root, place, set.sealed), 'member', removed))
    const update = 'update row_set set sealed = $3 where workspace_id = $1 and kind = $2'
    await client.query(update, [workspaceId, place.kind, left])
    await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Later', slug: `later-${made}` } })
    await here.call('PUT', `/v1/workspace/later-${made}`, { token: owner.session, body: { name: 'A later number' } })
    const fresh = await openService(here.settings, nodes.database.dataDir)
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

  // Late, because both nodes look for the missing numbers for a minute, which slows every other test.
  test('a node follows a change log with more missing numbers than a call can have arguments', async () => {
    const { engine } = here.app.services
    await createProject(here, owner.session, `before-${made}`)
    await hear(there)
    await engine.transaction('test', ({ db }) =>
      db.count(
        engine.kind === 'sqlite'
          ? sql`update sqlite_sequence set seq = seq + ${200_000} where name = 'change'`
          : sql`select setval(pg_get_serial_sequence('change', 'sequence'),
              nextval(pg_get_serial_sequence('change', 'sequence')) + ${200_000})`,
      ),
    )
    for (let round = 0; round < 2; round++) {
      const { id, token } = await createToken(here, owner.session)
      await nodes.warm([token])
      expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
      await until(async () => (await statusOf(there, token)) === 401 || undefined, 2_000, 'the token is refused there')
    }
  })

  test('neither node has logged an error', () => nodes.expectNoErrors())
})

/** Lets every read of a node fail until the returned function is called. */
async function cutOff(node: TestService): Promise<() => void> {
  const { changes } = node.app.services.store
  const listAfter = changes.listAfter.bind(changes)
  const { promise: failed, resolve } = Promise.withResolvers<void>()
  changes.listAfter = async () => {
    resolve()
    throw new Failure('unavailable')
  }
  await failed
  return () => {
    changes.listAfter = listAfter
  }
}

test('after a failover that lost the newest changes, their numbers are not taken for known ones', async () => {
  const nodes = await openTwoNodes()
  const { here, there, owner } = nodes
  const { engine, store } = here.app.services
  try {
    const { id, token } = await createToken(here, owner.session)
    await hear(there)
    const kept = await store.changes.newest()
    await engine.transaction('test', ({ db }) =>
      db.count(sql`
        with recursive many (number) as (select 1 union all select number + 1 from many where number < 500)
        insert into change (subject, subject_id, at) select 'user', 'nobody', ${Date.now()} from many`),
    )
    await hear(there)
    await nodes.warm([token])
    const connect = [await cutOff(here), await cutOff(there)]
    await engine.transaction('test', async ({ db }) => {
      db.write(sql`delete from change where sequence > ${kept}`)
      db.write(
        engine.kind === 'sqlite'
          ? sql`update sqlite_sequence set seq = ${kept} where name = 'change'`
          : sql`select setval(pg_get_serial_sequence('change', 'sequence'), ${kept})`,
      )
    })
    for (const again of connect) again()
    for (const node of [here, there]) {
      await until(async () => (await statusOf(node, token)) === 200 || undefined, 120_000, 'the node answers again')
    }
    await nodes.warm([token])
    expect((await here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })).status).toBe(200)
    await until(async () => (await statusOf(there, token)) === 401 || undefined, 30_000, 'the token is refused there')
  } finally {
    await nodes.stop()
  }
})
