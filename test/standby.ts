/** A PostgreSQL with a synchronous standby, and one address for both that follows the primary. */

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cp, readdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startPostgres } from './postgres.ts'
import { connectPostgres } from './postgres-client.ts'
import { until } from './wait.ts'

const limitMs = 120_000

type ReplicatedPostgres = {
  /** The address of the primary, before and after a failover. */
  readonly url: string
  /** Ends the primary like a power failure, promotes the standby, and returns once it accepts writes. */
  failOver(): Promise<void>
  stop(): Promise<void>
}

export async function startReplicatedPostgres(): Promise<ReplicatedPostgres> {
  const primary = await startPostgres()
  const standby = await startPostgres()
  await primary.pause()
  await standby.pause()
  await copyFolder(primary.dataDir, standby.dataDir)
  await writeFile(join(standby.dataDir, 'standby.signal'), '')
  const source = `host=127.0.0.1 port=${primary.port} user=coffer password=coffer`
  await writeFile(join(standby.dataDir, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`)
  await primary.start()
  // Resolves only after the promotion: before that, the server prints that it is read-only.
  const promoted = standby.start()
  promoted.catch(() => undefined)
  await onServer(primary.url, async (query) => {
    await until(
      async () => (await query('select from pg_stat_replication')).length || undefined,
      limitMs,
      'the standby follows',
    )
    await query(`alter system set synchronous_standby_names = '*'`)
    await query('select pg_reload_conf()')
    const isSynchronous = async () =>
      (await query(`select from pg_stat_replication where sync_state = 'sync'`)).length || undefined
    await until(isSynchronous, limitMs, 'the standby is synchronous')
  })
  const relay = await openRelay(primary.port)
  let hasFailed = false
  return {
    url: relay.urlOf(primary.url),
    async failOver() {
      await primary.crash()
      hasFailed = true
      await onServer(standby.url, (query) => query('select pg_promote()'))
      relay.lead(standby.port)
    },
    async stop() {
      await relay.close()
      await standby.stop()
      // The package waits for the end of a server that it has started, and does not notice a crash.
      if (hasFailed) await primary.start()
      await primary.stop()
    },
  }
}

async function copyFolder(from: string, to: string): Promise<void> {
  for (const name of await readdir(to)) await rm(join(to, name), { recursive: true })
  await cp(from, to, { recursive: true, preserveTimestamps: true })
  // As root, the server runs as another user.
  if (process.getuid?.() === 0) await promisify(execFile)('chown', ['-R', '--reference', from, to])
}

type Query = (text: string) => Promise<unknown[]>

async function onServer<Result>(url: string, work: (query: Query) => Promise<Result>): Promise<Result> {
  const client = await until(
    () => connectPostgres(url).catch(() => undefined),
    limitMs,
    'PostgreSQL accepts a connection',
  )
  try {
    return await work(async (text) => (await client.query(text)).rows)
  } finally {
    await client.end()
  }
}

/** Passes connections on to a port that can change. Connections to the former port break, as at a failover. */
async function openRelay(first: number) {
  let port = first
  const open = new Set<Socket>()
  const server = createServer((inward) => {
    const outward = connect(port, '127.0.0.1')
    for (const [socket, other] of [
      [inward, outward],
      [outward, inward],
    ] as const) {
      open.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    urlOf: (url: string) => Object.assign(new URL(url), { port: String(own) }).href,
    lead(next: number) {
      port = next
      cut()
    },
    async close() {
      server.close()
      cut()
    },
  }
}
