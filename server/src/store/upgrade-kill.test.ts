/** The upgrade of a store with data: killed at every step, and with clients that wait at the door. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { expectSameAnswers } from '../../../test/fixture/check.ts'
import { type Description, placeFixture } from '../../../test/fixture/fixture.ts'
import { createDatabase, type Database, engine as kind, openService } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { startNode } from '../../../test/program.ts'
import { startListening } from '../../../test/start-server.ts'
import { openEngine } from '../../../test/store.ts'
import { isDeep } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { steps } from './migrate.ts'

const killedMigration = join(import.meta.dirname, '../../../torture/process/killed-migration.ts')
const version = '0.1.0'

let database: Database
let fixture: Description
beforeEach(async () => {
  database = await createDatabase()
  fixture = await placeFixture(version, database)
})
afterEach(() => database.drop())

async function appliedSteps(): Promise<number> {
  const engine = openEngine(database.settings)
  try {
    return await engine.migratedSteps()
  } finally {
    await engine.close()
  }
}

async function expectClean(): Promise<void> {
  const { code, out } = await runHere(['doctor'], database.settings)
  expect(out).not.toContain('wrong')
  expect(code).toBe(0)
}

test('killed before and after the commit of every step, it ends with a store that answers as before', async () => {
  const last = isDeep ? steps.length : fixture.steps + 2
  for (let step = fixture.steps + 1; step <= last; step++) {
    for (const when of ['before', 'after']) {
      const { signal, err } = await startNode([killedMigration, when, JSON.stringify(database.settings)]).ended
      expect(signal, err).toBe('SIGKILL')
      expect(await appliedSteps()).toBe(when === 'before' ? step - 1 : step)
    }
  }
  const clock = { offsetMs: fixture.at - Date.now() }
  const service = await openService(database.settings, database.dataDir, {}, clock)
  await expectSameAnswers(service, fixture)
  await service.stop()
  await expectClean()
  const copies = readdirSync(database.dataDir).filter((name) => name.startsWith('coffer.db.'))
  expect(copies).toEqual(kind === 'sqlite' ? [`coffer.db.before-step-${fixture.steps + 1}`] : [])
})

test('with clients that ask from the first moment on, and a kill, no acknowledged write is lost', async () => {
  const port = await freePort()
  const load = startLoad(`http://127.0.0.1:${port}`, fixture.credentials)
  const settings = { ...database.settings, COFFER_PORT: String(port) }
  let service = await startListening(settings)
  try {
    for (const isLast of [false, true]) {
      const goal = load.seen.writes + 40
      const isEnough = () => load.wrong.length > 0 || (load.seen.writes >= goal && load.seen.reads > 10)
      await until(() => isEnough() || undefined, 120_000, 'requests are answered')
      if (isLast) break
      await service.destroy()
      service = await startListening(settings)
    }
    await load.stop()
    expect(load.wrong).toEqual([])
    for (const [at, { acknowledged, tried }] of load.numbers.entries()) {
      const text = await (await load.read(at)).text()
      const found = Number(/number (\d+)/.exec(text)?.[1])
      expect(found, text).toBeGreaterThanOrEqual(acknowledged)
      expect(found).toBeLessThanOrEqual(tried)
    }
  } finally {
    await load.stop()
    await service.stop()
  }
  await expectClean()
})

/** Four clients that count one secret up each and read it, whether the service is up or not. */
function startLoad(url: string, { writer = '', reader = '' }: Description['credentials']) {
  const secrets = `${url}/v1/workspace/main/project/shop/secret`
  const numbers = Array.from({ length: 4 }, () => ({ acknowledged: 0, tried: 0 }))
  const seen = { writes: 0, reads: 0 }
  const wrong: string[] = []
  let isOver = false
  const read = (at: number) =>
    fetch(`${secrets}/COUNT_${at}?environmentId=development`, { headers: { authorization: `Bearer ${reader}` } })
  const write = (at: number, value: string) =>
    fetch(secrets, {
      method: 'POST',
      headers: { authorization: `Bearer ${writer}`, 'content-type': 'application/json' },
      body: JSON.stringify({ environments: ['development'], secrets: [{ key: `COUNT_${at}`, value }], mode: 'upsert' }),
    })
  /** Undefined while nobody listens, and if the service was killed. */
  const attempt = async (ask: () => Promise<Response>) => {
    const response = await ask().catch(() => undefined)
    const text = await response?.text().catch(() => undefined)
    if (text === undefined) await new Promise((resolve) => setTimeout(resolve, 5))
    if (response && text !== undefined && response.status >= 300) wrong.push(`${response.status} ${text}`)
    return text
  }
  const work = async (at: number) => {
    const number = numbers[at]
    while (number && !isOver && wrong.length === 0) {
      number.tried++
      if ((await attempt(() => write(at, `number ${number.tried}`))) === undefined) continue
      number.acknowledged = number.tried
      seen.writes++
      const text = await attempt(() => read(at))
      if (text === undefined) continue
      seen.reads++
      if (!text.includes(`number ${number.acknowledged}"`)) wrong.push(`a read after ${number.acknowledged}: ${text}`)
    }
  }
  const done = Promise.all(numbers.map((_, at) => work(at)))
  return {
    numbers,
    seen,
    wrong,
    read,
    stop: async () => {
      isOver = true
      await done
    },
  }
}
