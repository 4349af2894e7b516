/** Health checks for orchestrators. The full disk of SQLite is in store/engine/sqlite-file.test.ts. */
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { engine, openService, registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { startWatch, until } from '../../../../test/program.ts'
import { openRaw } from '../../../../test/raw-database.ts'

let service: TestService
beforeEach(async () => {
  service = await startService()
})
afterEach(() => service.stop())

const status = async (path: string) => (await service.call('GET', path)).status
const told = (message: string) => service.logs.filter((line) => line.includes(message))

test('a service that can do its work is ready, and says nothing about it', async () => {
  expect(await status('/readyz')).toBe(200)
  expect(told('writes are')).toEqual([])
})

test('a server whose disk is full is told of once, is not ready, and is tried again although nobody asks', async () => {
  if (engine === 'sqlite') return expect(await status('/readyz')).toBe(200)
  const { session } = await registerOwner(service)
  const raw = await openRaw(service)
  await raw.query(
    "create function refuse() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$",
  )
  for (const table of ['audit_head', 'instance']) {
    await raw.query(`create trigger full_disk before insert or update on ${table} execute function refuse()`)
  }
  const write = () => service.call('POST', '/v1/workspace/main/team', { token: session, body: { name: 'New' } })
  for (let count = 0; count < 3; count++) expect((await write()).status).toBe(503)
  expect(await status('/readyz')).toBe(503)
  expect(await status('/healthz')).toBe(200)
  expect(told('writes are refused')).toEqual([expect.stringContaining('53100')])
  for (const table of ['audit_head', 'instance']) await raw.query(`drop trigger full_disk on ${table}`)
  await raw.close()
  await until(() => told('writes are accepted again')[0], 30_000, 'it is tried again')
  expect(await status('/readyz')).toBe(200)
  expect((await write()).status).toBe(201)
  expect(told('writes are refused')).toHaveLength(1)
})

/** Between the service and its PostgreSQL: what it no longer passes on has been sent, and is not answered. */
async function startWire(url: string) {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.push(from.on('error', () => to.destroy()).on('close', () => to.destroy()))
      from.on('data', (bytes) => !wire.hangs && to.write(bytes))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const through = new URL(url)
  through.port = String(typeof address === 'object' && address ? address.port : 0)
  const wire = {
    hangs: false,
    url: through.href,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
  return wire
}

test('a server that hangs keeps nobody waiting who asks for health or metrics', async () => {
  const given = service.settings.COFFER_DATABASE_URL
  if (given === undefined) return expect(engine).toBe('sqlite')
  const wire = await startWire(given)
  const settings = { ...service.settings, COFFER_DATABASE_URL: wire.url, COFFER_METRICS_TOKEN: 'metrics' }
  const behind = await openService(settings, service.dataDir)
  const metrics = () => behind.call('GET', '/metrics', { token: 'metrics' })
  expect((await behind.call('GET', '/readyz')).status).toBe(200)
  expect((await metrics()).text).toContain('coffer_sync_lag_seconds')
  wire.hangs = true
  const watch = startWatch()
  const answers = await Promise.all(Array.from({ length: 30 }, () => behind.call('GET', '/readyz')))
  expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 503))
  const { status, text } = await metrics()
  expect(watch.stop()).toBeLessThan(5_000)
  expect(status).toBe(200)
  expect(text).toContain('coffer_http_requests_total{method="GET",route="/readyz",status="503"}')
  expect(text).not.toContain('coffer_sync_lag_seconds')
  wire.close()
  await behind.stop()
})

test('a job that fails is told of once, and once more when it succeeds again', async () => {
  const raw = await openRaw(service)
  const { syncs } = service.app.services.store
  const hasDue = syncs.hasDue.bind(syncs)
  let failures = 0
  syncs.hasDue = (nowMs) =>
    hasDue(nowMs).catch((error) => {
      failures++
      throw error
    })
  await raw.query('alter table sync rename column due_at to hidden_at')
  await until(() => failures > 3 || undefined, 30_000, 'the job fails again and again')
  expect(told('a job failed')).toEqual([expect.stringContaining('"job":"sync"')])
  await raw.query('alter table sync rename column hidden_at to due_at')
  await raw.close()
  await until(() => told('a job succeeds again')[0], 30_000, 'the job succeeds')
})
