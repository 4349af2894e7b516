/** Health checks for orchestrators. A full disk under SQLite is tested in store/engine/sqlite-file.test.ts. */
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { engine, openService, registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { openRaw } from '../../../../test/raw-database.ts'
import { startWatch, until } from '../../../../test/wait.ts'

let service: TestService
beforeEach(async () => {
  service = await startService()
})
afterEach(() => service.stop())

const status = async (path: string) => (await service.call('GET', path)).status
const logged = (message: string) => service.logs.filter((line) => line.includes(message))

test('a healthy service is ready and logs nothing about writes', async () => {
  expect(await status('/readyz')).toBe(200)
  expect(logged('writes are')).toEqual([])
})

test('a full disk is logged once, makes the service unready, and is probed again without any request', async () => {
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
  expect(logged('writes are refused')).toEqual([expect.stringContaining('53100')])
  for (const table of ['audit_head', 'instance']) await raw.query(`drop trigger full_disk on ${table}`)
  await raw.close()
  await until(() => logged('writes are accepted again')[0], 120_000, 'the service probes the disk again')
  expect(await status('/readyz')).toBe(200)
  expect((await write()).status).toBe(201)
  expect(logged('writes are refused')).toHaveLength(1)
})

/** A proxy between the service and PostgreSQL. While it hangs, requests are sent and never answered. */
async function startProxy(url: string) {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.push(from.on('error', () => to.destroy()).on('close', () => to.destroy()))
      from.on('data', (bytes) => !proxy.hangs && to.write(bytes))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const through = new URL(url)
  through.port = String(typeof address === 'object' && address ? address.port : 0)
  const proxy = {
    hangs: false,
    url: through.href,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
  return proxy
}

test('health and metrics respond within seconds while PostgreSQL hangs', async () => {
  const given = service.settings.COFFER_DATABASE_URL
  if (given === undefined) return expect(engine).toBe('sqlite')
  const proxy = await startProxy(given)
  const settings = { ...service.settings, COFFER_DATABASE_URL: proxy.url, COFFER_METRICS_TOKEN: 'metrics' }
  const behind = await openService(settings, service.dataDir)
  const metrics = () => behind.call('GET', '/metrics', { token: 'metrics' })
  expect((await behind.call('GET', '/readyz')).status).toBe(200)
  expect((await metrics()).text).toContain('coffer_sync_lag_seconds')
  proxy.hangs = true
  const watch = startWatch()
  const answers = await Promise.all(Array.from({ length: 30 }, () => behind.call('GET', '/readyz')))
  expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 503))
  const { status, text } = await metrics()
  expect(watch.stop()).toBeLessThan(5_000)
  expect(status).toBe(200)
  expect(text).toContain('coffer_http_requests_total{method="GET",route="/readyz",status="503"}')
  expect(text).not.toContain('coffer_sync_lag_seconds')
  proxy.close()
  await behind.stop()
})

test('a failing job is logged once, and once more when it succeeds again', async () => {
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
  await until(() => failures > 3 || undefined, 120_000, 'the job fails repeatedly')
  expect(logged('a job failed')).toEqual([expect.stringContaining('"job":"sync"')])
  await raw.query('alter table sync rename column hidden_at to due_at')
  await raw.close()
  await until(() => logged('a job succeeds again')[0], 120_000, 'the job succeeds')
})
