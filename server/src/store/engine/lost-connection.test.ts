/** Connections to PostgreSQL that are lost at any moment of a transaction. */
import { connect, createServer, type Socket } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Database, engine as kind } from '../../../../test/harness.ts'
import { newTrace, traceLink } from '../../../../test/job.ts'
import { connectPostgres } from '../../../../test/postgres-client.ts'
import { createSqlDatabase, findItem, insertItem, settle, soon, unused } from '../../../../test/sql-engine.ts'
import { openPostgres } from './postgres.ts'
import { anyOf, type Db, type Engine, forUpdate, type Job, sql } from './sql.ts'

let database: Database
let engine: Engine
let other: Engine
let openEngine: () => Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ database, engine, other, openEngine, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))

describe('a lost connection', () => {
  test('closed by the server makes its transaction unavailable, and the next one gets a new connection', async () => {
    if (engine.kind === 'sqlite') {
      // SQLite has no server to lose.
      expect(kind).toBe('sqlite')
      return
    }
    const [kept, lost, next] = [unused(), unused(), unused()]
    const works = [
      commit((db) => insertItem(db, kept), 'lost'),
      commit(async (db) => {
        await insertItem(db, lost)
        const own = await db.one<{ pid: number }>(sql`select pg_backend_pid() as pid`)
        await terminateBackend(own?.pid ?? 0)
        db.write(sql`update item set amount = 1 where id = ${lost}`)
      }, 'lost'),
      commit((db) => insertItem(db, next), 'lost'),
    ]
    const outcomes = await soon(Promise.all(works.map(settle)), 'every result')
    expect(outcomes).toMatchObject([{ ok: true }, { ok: false, error: { code: 'unavailable' } }, { ok: true }])
    for (const [index, id] of [kept, lost, next].entries())
      expect((await findItem(engine, id)) !== undefined).toBe(outcomes[index]?.ok)
  })

  async function terminateBackend(pid: number): Promise<void> {
    const client = await connectPostgres(database.settings.COFFER_DATABASE_URL)
    await client.query('select pg_terminate_backend($1, 5000)', [pid])
    await client.end()
  }

  test('is not what a deadlock is: the job that the server ended for it is repeated', async () => {
    const [left, right] = [unused(), unused()]
    await commit(async (db) =>
      db.writeMany([left, right], (id) => sql`insert into balance (id, amount) values (${id}, 0)`),
    )
    let reads = 0
    const { promise: bothRead, resolve } = Promise.withResolvers<void>()
    const increment = (ids: readonly string[]): Job<void, void, string> => ({
      read: async (db) => {
        for (const id of ids) {
          await db.one(sql`select amount from balance where id = ${id} ${forUpdate}`)
          if (++reads === 2 || engine.kind === 'sqlite') resolve()
          await bothRead
        }
      },
      plan: (_read, _desk, db) => {
        for (const id of ids) db.write(sql`update balance set amount = amount + 1 where id = ${id}`)
        return { result: undefined, note: '' }
      },
      link: traceLink(newTrace()),
    })
    await Promise.all([
      engine.commit('left', increment([left, right])),
      other.commit('right', increment([right, left])),
    ])
    const rows = await engine.all(sql`select amount from balance where id ${anyOf([left, right])}`)
    expect(rows).toEqual([{ amount: 2 }, { amount: 2 }])
  })

  test('closed after a pause within a transaction is unavailable, and waiters for its locks continue', async () => {
    if (engine.kind === 'sqlite') {
      // SQLite has no second node that could wait.
      expect(kind).toBe('sqlite')
      return
    }
    const limit = await engine.one<{ ms: number }>(sql`
      select setting::bigint as ms from pg_settings where name = 'idle_in_transaction_session_timeout'`)
    // Well below the time that a follower of the change log waits for a missing number.
    expect(limit?.ms).toBe(10_000)
    const id = unused()
    await commit((db) => db.count(sql`insert into balance (id, amount) values (${id}, 1)`))
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    const { promise: holdsLock, resolve: hold } = Promise.withResolvers<void>()
    const frozen = settle(
      engine.transaction('frozen', async ({ db }) => {
        db.write(sql`update balance set amount = 2 where id = ${id}`)
        // Last, because the timeout runs from here.
        db.write(sql`set local idle_in_transaction_session_timeout = 100`)
        await findItem(db, id)
        hold()
        await isOver
        db.write(sql`update balance set amount = 3 where id = ${id}`)
      }),
    )
    await holdsLock
    const waiting = other.transaction('waiting', ({ db }) =>
      db.count(sql`update balance set amount = amount + 10 where id = ${id}`),
    )
    await soon(waiting, 'the lock of the paused transaction').finally(end)
    expect(await frozen).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 11 })
  })

  test('a migration step may take longer than any other statement', async () => {
    if (engine.kind === 'sqlite') {
      // SQLite limits only the wait for a lock.
      expect(kind).toBe('sqlite')
      return
    }
    // Enough for a short statement on a busy machine.
    const hurried = openPostgres(database.settings.COFFER_DATABASE_URL ?? '', 1_000)
    const slow = await settle(hurried.one(sql`select pg_sleep(1.5)`))
    expect(slow).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    // Longer than the driver timeout as well.
    await hurried.migrateStep(1_001, 'test', 'create table slow as select 1 as one from pg_sleep(2.3)', 0)
    await hurried.close()
    expect(await engine.one(sql`select count(*) as count from slow`)).toEqual({ count: 1 })
  })

  test('while it is being opened is unavailable, and never an uncaught exception', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { url, close } = await startClosingServer(database.settings.COFFER_DATABASE_URL ?? '')
    const uncaught: unknown[] = []
    const note = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtException', note)
    const node = openPostgres(url)
    const outcomes = [
      await settle(node.transaction('opening', async () => undefined)),
      await settle(node.one(sql`select id from item limit 1`)),
      await settle(node.migrateStep(1_000, 'test', 'create table never (id text)', 0)),
    ]
    await node.close()
    await close()
    process.off('uncaughtException', note)
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(uncaught).toEqual([])
  })

  /** Accepts clients, and sends them the shutdown message in the same packet. */
  async function startClosingServer(target: string) {
    const { hostname, port } = new URL(target)
    const readyForQuery = Buffer.from('5a0000000549', 'hex')
    const fields = 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'
    const shutdownMessage = Buffer.concat([Buffer.from('E'), Buffer.alloc(4), Buffer.from(fields)])
    shutdownMessage.writeInt32BE(shutdownMessage.length - 1, 1)
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      client.on('error', () => undefined).on('close', () => upstream.destroy())
      upstream.on('error', () => undefined)
      client.pipe(upstream)
      upstream.on('data', (data) => {
        if (data.includes(readyForQuery)) client.end(Buffer.concat([data, shutdownMessage]))
        else client.write(data)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const own = typeof address === 'object' && address ? address.port : 0
    return {
      url: Object.assign(new URL(target), { port: String(own) }).href,
      close: () => new Promise((resolve) => server.close(resolve)),
    }
  }

  test('to a server that rejects writes or new connections is unavailable', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const refused = unused()
    const told: string[] = []
    engine.onRefusal((error) => told.push(error.code))
    const write = await settle(
      engine.transaction('read only', async ({ db }) => {
        // Like a primary that has become a standby, or whose disk is nearly full.
        db.write(sql`set transaction read only`)
        await insertItem(db, refused)
      }),
    )
    expect(write).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(told).toEqual(['unavailable'])
    expect(await findItem(engine, refused)).toBeUndefined()
    const changes: Partial<URL>[] = [{ password: 'changed' }, { pathname: '/renamed' }]
    for (const change of changes) {
      const url = Object.assign(new URL(database.settings.COFFER_DATABASE_URL ?? ''), change)
      const node = openPostgres(url.href)
      const outcomes = [
        await settle(node.one(sql`select id from item limit 1`)),
        await settle(node.transaction('opening', async () => undefined)),
      ]
      await node.close()
      for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    }
  })

  test('without any response times out once, and the next transaction waits only for that timeout', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { url, hush, isHushed, close } = await startMutedServer(database.settings.COFFER_DATABASE_URL ?? '')
    // The driver waits one second longer.
    const node = openPostgres(url, 3_000)
    const queries = vi.spyOn(pg.Client.prototype, 'query')
    const lost = settle(
      node.transaction('silent', async ({ db }) => {
        await db.one(sql`select id from item limit 1`)
        hush()
        await db.one(sql`select id from item limit 1`)
      }),
    )
    await isHushed
    const next = await settle(node.transaction('silent', ({ db }) => db.one(sql`select id from item limit 1`)))
    expect([await lost, next]).toMatchObject([{ ok: false, error: { code: 'unavailable' } }, { ok: true }])
    const texts = queries.mock.calls.map(([query]) => Object(query).text)
    queries.mockRestore()
    expect(texts.filter((text) => text === 'begin')).toHaveLength(2)
    // A rollback would get no response either.
    expect(texts).not.toContain('rollback')
    await node.close()
    await close()
  })

  /** A proxy that forwards everything, until `hush` silences the connections of that moment. */
  async function startMutedServer(target: string) {
    const { hostname, port } = new URL(target)
    const upstreams = new Set<Socket>()
    const hushed = Promise.withResolvers<void>()
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      upstreams.add(upstream)
      client.on('error', () => undefined).on('close', () => upstream.destroy())
      upstream.on('error', () => undefined)
      client.pipe(upstream)
      upstream.pipe(client)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const own = typeof address === 'object' && address ? address.port : 0
    return {
      url: Object.assign(new URL(target), { port: String(own) }).href,
      hush: () => {
        for (const upstream of upstreams) upstream.unpipe().pause()
        hushed.resolve()
      },
      isHushed: hushed.promise,
      close: () => new Promise((resolve) => server.close(resolve)),
    }
  }

  test('with a failed socket write is unavailable, never an internal error', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { Socket } = await import('node:net')
    const node = openEngine()
    await node.one(sql`select id from item limit 1`)
    const write = Socket.prototype.write
    // The error code of the kernel for a closed peer. It has five letters, like a SQLSTATE, and must not be taken for one.
    Socket.prototype.write = function cut(this: InstanceType<typeof Socket>) {
      this.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }))
      return false
    }
    const outcome = await settle(node.one(sql`select id from item limit 1`)).finally(() => {
      Socket.prototype.write = write
    })
    expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(await settle(node.one(sql`select id from item limit 1`))).toEqual({ ok: true })
    await node.close()
  })
})
