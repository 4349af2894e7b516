/** What is told to whatever keeps the process running. The full disk of SQLite is in store/sqlite-file.test.ts. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { engine, registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { until } from '../../../test/program.ts'
import { openRaw } from '../../../test/raw-database.ts'

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
  await until(() => told('writes are accepted again')[0], 10_000, 'it is tried again')
  expect(await status('/readyz')).toBe(200)
  expect((await write()).status).toBe(201)
  expect(told('writes are refused')).toHaveLength(1)
})
