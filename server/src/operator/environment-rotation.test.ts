/** The key of an environment is rotated: killed on the way, under load, and while a process is stopped. */
import { Agent } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { Diff, SecretVersionValue } from '@coffer/contract/history'
import type { Project } from '@coffer/contract/project'
import type { Secret } from '@coffer/contract/secret'
import type { Team } from '@coffer/contract/team'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { caller } from '../../../test/caller.ts'
import { createDatabase, type Database, password } from '../../../test/harness.ts'
import { type Serving, serve } from '../../../test/process.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { runProgram, startProgram } from '../../../test/start-server.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { openServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { keyVersionOf } from '../crypto/envelope.ts'
import { asOperator } from '../domain/context.ts'
import { rotateEnvironmentKey } from '../domain/workspace/key.ts'
import { createLog } from '../log.ts'
import { openPostgres } from '../store/engine/postgres.ts'
import { type Engine, sql } from '../store/engine/sql.ts'
import { openSqlite } from '../store/engine/sqlite.ts'

const secrets = '/v1/workspace/main/project/api/secret'
const command = ['keys', 'rotate-environment', 'main', 'api', 'development']
/** Enough for sixteen batches of values and versions, and more under load. */
const keys = Array.from({ length: 200 }, (_, index) => `KEY_${index}`)

let database: Database
let service: Serving
let store: Engine
let token: string
let environmentId: string
beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  service = await serve(database.settings)
  const url = database.settings.COFFER_DATABASE_URL
  store = url === undefined ? openSqlite(join(database.dataDir, 'coffer.db')) : openPostgres(url)
  const owner = { email: 'owner@example.com', name: 'Owner', password, setupCode }
  token = (await service.call<SignedIn>('POST', '/v1/auth/register', { body: owner })).body.accessToken
  const teams = await service.call<Team[]>('GET', '/v1/workspace/main/team', { token })
  const project = { name: 'Api', slug: 'api', teamId: teams.body[0]?.id }
  const made = await service.call<Project>('POST', '/v1/workspace/main/project', { token, body: project })
  environmentId = made.body.environments.find(({ name }) => name === 'development')?.id ?? ''
  for (const round of [1, 2, 3]) {
    const wanted = keys.map((key) => ({ key, value: `${key} round ${round}` }))
    const body = { environments: ['development', 'staging'], secrets: wanted, mode: 'upsert' }
    expect((await service.call('POST', secrets, { token, body })).status).toBe(201)
  }
})
afterAll(async () => {
  await store.close()
  await service.stop()
  await database.drop()
})

let load: Load | undefined
// Also after a failed test: the next one must not run under its load.
afterEach(() => load?.stop())

type Load = ReturnType<typeof startLoad>

/**
 * Writers with a secret each, and readers of all; collects every wrong response. Each pauses for up to `mostRestMs`
 * after a request.
 */
function startLoad(writers: number, acceptedStatuses: readonly number[], mostRestMs: number) {
  let restMs = mostRestMs
  const rest = () => new Promise((resolve) => setTimeout(resolve, Math.random() * restMs))
  // A connection each: a service that was stopped for long closes those that it takes for idle.
  const call = caller(service.url, new Agent())
  let isOver = false
  const written = new Map<string, string>()
  const wrong: string[] = []
  let answers = 0
  const refuse = (what: string, { status, text }: { status: number; text: string }) => {
    if (!acceptedStatuses.includes(status)) wrong.push(`${what}: ${status} ${text.slice(0, 200)}`)
  }
  const write = async (writer: number) => {
    const key = keys[writer] ?? ''
    for (let count = 0; !isOver; count++) {
      const value = `${key} written ${count}`
      const body = { environmentId, value }
      const answer = await call('PUT', `${secrets}/${key}/value`, { token, body })
      answers++
      if (answer.status === 200) written.set(key, value)
      else refuse('write', answer)
      await rest()
    }
  }
  const read = async () => {
    while (!isOver) {
      const answer = await call<Secret[]>('GET', `${secrets}?environmentId=development`, { token })
      answers++
      if (answer.status !== 200) refuse('read', answer)
      else if (answer.body.some(({ name, values }) => !values[0]?.value?.startsWith(`${name} `)))
        wrong.push('a wrong value')
      await rest()
    }
  }
  const done = Promise.all([...Array.from({ length: writers }, (_, writer) => write(writer)), read(), read()])
  return {
    written,
    wrong,
    answers: () => answers,
    slowDown: () => {
      restMs = Math.min(2 * restMs, 3_000)
    },
    stop: async () => {
      isOver = true
      await done
    },
  }
}

async function keysOf(): Promise<number[]> {
  const rows = await store.all<{ version: number }>(sql`
    select version from environment_key where environment_id = ${environmentId} order by version`)
  return rows.map(({ version }) => version)
}

/** One key is left, everything is encrypted with it, and every value of every version is unchanged. */
async function expectAllOpen(written: ReadonlyMap<string, string>): Promise<void> {
  const left = await keysOf()
  expect(left).toHaveLength(1)
  const sealed = await store.all<{ sealed: Uint8Array }>(sql`
    select sealed from secret_value where environment_id = ${environmentId} and sealed is not null
    union all
    select sealed from secret_version where environment_id = ${environmentId} and sealed is not null`)
  expect(new Set(sealed.map((row) => keyVersionOf(row.sealed)))).toEqual(new Set(left))
  const listed = await service.call<Secret[]>('GET', `${secrets}?environmentId=development`, { token })
  expect(listed.status, listed.text.slice(0, 200)).toBe(200)
  const values = new Map(listed.body.map(({ name, values }) => [name, values[0]?.value]))
  for (const [key, value] of written) expect(values.get(key)).toBe(value)
  // Each of the first three revisions wrote a version of every key, so two diffs open all of them.
  for (const [from, to] of [
    [1, 2],
    [2, 3],
  ]) {
    const path = `${secrets}/diff?from=development@${from}&to=development@${to}&values=true`
    const diff = await service.call<Diff>('GET', path, { token })
    const expected = keys.map((key) => [key, { from: `${key} round ${from}`, to: `${key} round ${to}` }])
    expect(diff.body.values, diff.text.slice(0, 200)).toEqual(Object.fromEntries(expected))
  }
  for (const key of [...written.keys(), ...keys.slice(-3)]) {
    const newest = listed.body.find(({ name }) => name === key)?.values[0]?.version ?? 0
    for (const version of new Set([1, 2, 3, newest - 1, newest])) {
      const path = `${secrets}/${key}/version/${version}?environmentId=development`
      const answer = await service.call<SecretVersionValue>('GET', path, { token })
      expect(answer.status, `${key} ${version} ${answer.text}`).toBe(200)
      if (version <= 3) expect(answer.body.value).toBe(`${key} round ${version}`)
    }
  }
  const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token })
  expect(verdict.body).toMatchObject({ ok: true })
}

test('a rotation that is killed repeatedly under load is completed by the next, and every value opens', {
  timeout: 600_000,
}, async () => {
  // A full load would starve the rotation.
  const running = startLoad(6, [], times(100, 20))
  load = running
  let [before = 0] = await keysOf()
  // Before any re-encryption, during it, and in the pause before the old key is removed.
  const moments = ['new key', ...Array.from({ length: times(1, 2) }, () => 'sealing'), 'pause']
  let missed = 0
  for (const moment of moments) {
    const rotation = startProgram(command, database.settings)
    if (moment === 'new key')
      await until(
        async () => (await keysOf()).length > 1 || rotation.hasEnded() || undefined,
        120_000,
        'a new key exists',
      )
    else
      await until(() => rotation.out().includes('values re-encrypted') || undefined, 120_000, 'values are re-encrypted')
    if (moment === 'pause') await new Promise((resolve) => setTimeout(resolve, 700))
    rotation.kill('SIGKILL')
    await rotation.ended
    const left = await keysOf()
    // On a busy machine the rotation may be complete before the kill: then the moment is repeated.
    if (left.length === 1 && missed++ < 5) {
      before++
      moments.push(moment)
    }
    expect(left, `after a kill: ${moment}`).toEqual(left.length === 1 ? [before] : [before, before + 1])
  }
  const completed = await runProgram(command, database.settings)
  expect(completed).toMatchObject({ code: 0, err: '' })
  expect(completed.out).toContain('old environment keys removed: 1')
  await running.stop()
  expect(running.wrong).toEqual([])
  expect(running.answers()).toBeGreaterThan(100)
  expect(await keysOf()).toEqual([before + 1])
  await expectAllOpen(running.written)
})

test('a process that is stopped during a whole rotation encrypts nothing with the removed key', {
  timeout: 600_000,
}, async () => {
  // The load needs moments without an open transaction.
  const running = startLoad(12, [503], 400)
  load = running
  // In this process: the start of another one would take most of the time that the service is stopped for.
  const rotate = async (settleMs?: number) => {
    const services = await openServices(readConfig(database.settings), createLog('silent'), 'write')
    const path = { workspace: 'main', project: 'api', environment: 'development' }
    const rotation = rotateEnvironmentKey(asOperator(services), path, () => undefined, settleMs)
    await rotation.finally(() => services.engine.close())
  }
  const [before = 0] = await keysOf()
  let isRotated = false
  while (!isRotated) {
    const since = running.answers()
    await until(() => running.answers() > since + 20 || undefined, 120_000, 'the load runs')
    service.program.kill('SIGSTOP')
    try {
      // A process that is stopped inside a transaction holds its lock, and the rotation would wait for it.
      if (await isWriting()) running.slowDown()
      else {
        await rotate()
        isRotated = true
      }
    } finally {
      service.program.kill('SIGCONT')
    }
  }
  expect(await keysOf()).toEqual([before + 1])
  await running.stop()
  expect(running.wrong).toEqual([])
  await rotate(0)
  await expectAllOpen(running.written)
})

/** True if a transaction of the service is open. */
async function isWriting(): Promise<boolean> {
  if (store.kind === 'postgres') {
    const open = await store.one(sql`
      select pid from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
        and backend_type = 'client backend' limit 1`)
    return open !== undefined
  }
  const file = new DatabaseSync(join(database.dataDir, 'coffer.db'), { timeout: 0 })
  try {
    file.exec('begin immediate')
    return false
  } catch {
    return true
  } finally {
    file.close()
  }
}
