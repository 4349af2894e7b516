/**
 * A process is killed while it writes secrets: acknowledged writes are stored and audited, all others are stored
 * completely or not at all.
 */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { Project } from '@coffer/contract/project'
import type { Secret } from '@coffer/contract/secret'
import type { Team } from '@coffer/contract/team'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDice, type Dice, seed } from '../../../test/dice.ts'
import { createDatabase, type Database, engine, password } from '../../../test/harness.ts'
import { type Serving, serve } from '../../../test/process.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { runProgram } from '../../../test/start-server.ts'
import { findBrokenRows } from '../../../test/store.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { type Place, type State, sorted, startWriteLoad, stateOf } from '../../../test/write-load.ts'

/** A database server keeps its commits by itself, so fewer cycles show that nothing is half-applied. */
const cycles = engine === 'sqlite' ? times(2, 50) : times(3, 20)
/** A trail grows through several kills, but stays short enough to be verified after each. */
const cyclesPerWorkspace = 10

type TimedPlace = Place & { readonly since: string }

let database: Database
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

test(`kill -9 during writes, ${cycles} times, loses no acknowledged write and leaves nothing half-applied`, {
  timeout: 900_000,
}, async () => {
  try {
    await killRepeatedly(createDice(seed))
  } catch (error) {
    console.error(`The seed of this run: COFFER_TEST_SEED=${seed}`)
    throw error
  }
})

async function killRepeatedly(dice: Dice): Promise<void> {
  let service = await serve(database.settings)
  const owner = { email: 'owner@example.com', name: 'Owner', password, setupCode }
  const { body } = await service.call<SignedIn>('POST', '/v1/auth/register', { body: owner })
  const token = body.accessToken
  const survived = new Map<TimedPlace, State>()
  let written = 0
  for (let cycle = 0; cycle < cycles; cycle++) {
    const place = await prepare(service, token, cycle)
    const load = startWriteLoad(service.url, token, place, dice)
    const enough = 20 + dice(60)
    await until(() => load.acknowledged.length > enough || undefined, 120_000, 'the load runs')
    await new Promise((resolve) => setTimeout(resolve, dice(6)))
    await service.destroy()
    await load.ended
    expect(load.unexpected).toEqual([])
    written += load.acknowledged.length

    expect(await findBrokenRows(database.settings, place.project)).toEqual([])
    service = await serve(database.settings)
    const found = await readState(service, token, place)
    for (const { prefix, state, pending } of load.workers) {
      const own = new Map([...found].filter(([name]) => name.includes(` ${prefix}`)))
      const possible = [state, ...(pending ? [pending] : [])].map(sorted)
      expect(possible, `the state written by ${prefix}`).toContainEqual(sorted(own))
    }
    await expectRecorded(service, token, place, load.acknowledged)
    survived.set(place, found)
  }
  expect(written).toBeGreaterThan(cycles * 20)
  // Later kills removed nothing that had survived earlier ones.
  for (const [place, state] of survived) expect(await readState(service, token, place)).toEqual(state)
  expect((await service.stop()).code).toBe(0)
  const doctor = await runProgram(['doctor'], database.settings)
  expect(doctor.code, doctor.out + doctor.err).toBe(0)
}

/** A new project for every cycle, and a new workspace every `cyclesPerWorkspace` cycles. */
async function prepare(service: Serving, token: string, cycle: number): Promise<TimedPlace> {
  const since = new Date().toISOString()
  const workspace = `kills-${Math.floor(cycle / cyclesPerWorkspace)}`
  if (cycle % cyclesPerWorkspace === 0) {
    const body = { name: workspace, slug: workspace }
    expect((await service.call('POST', '/v1/workspace', { token, body })).status).toBe(201)
  }
  const teams = await service.call<Team[]>('GET', `/v1/workspace/${workspace}/team`, { token })
  const slug = `cycle-${cycle}`
  const made = await service.call<Project>('POST', `/v1/workspace/${workspace}/project`, {
    token,
    body: { name: slug, slug, teamId: teams.body[0]?.id },
  })
  expect(made.status, made.text).toBe(201)
  return { workspace, project: made.body, prefix: `C${cycle}_`, since }
}

async function readState(service: Serving, token: string, place: Place): Promise<State> {
  const root = `/v1/workspace/${place.workspace}`
  const secrets = await service.call<Secret[]>('GET', `${root}/project/${place.project.slug}/secret`, { token })
  expect(secrets.status, secrets.text).toBe(200)
  const teams = await service.call<Team[]>('GET', `${root}/team`, { token })
  return stateOf(place, secrets.body, teams.body)
}

/** The chain verifies, and contains every acknowledged request. */
async function expectRecorded(
  service: Serving,
  token: string,
  place: TimedPlace,
  requests: readonly string[],
): Promise<void> {
  const audit = `/v1/workspace/${place.workspace}/audit`
  const verdict = await service.call<AuditVerdict>('GET', `${audit}/verify`, { token })
  expect(verdict.body).toMatchObject({ ok: true })
  const response = await fetch(`${service.url}${audit}?format=ndjson&from=${place.since}`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const lines = (await response.text()).split('\n').filter(Boolean)
  const recorded = new Set(lines.map((line): string => (JSON.parse(line) satisfies AuditEntry).requestId))
  expect(requests.filter((id) => !recorded.has(id))).toEqual([])
}
