/**
 * A process that is killed while it writes secrets: what was acknowledged is there and in the audit trail, and what was
 * not is there as a whole or not at all.
 */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { Project } from '@coffer/contract/project'
import type { Secret } from '@coffer/contract/secret'
import type { Team } from '@coffer/contract/team'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, password } from '../../../test/harness.ts'
import { runProgram, type Serving, serve, until } from '../../../test/process.ts'
import { openPostgres } from '../store/postgres.ts'
import { anyOf, type Engine, sql } from '../store/sql.ts'
import { openSqlite } from '../store/sqlite.ts'

const cycles = 50
const workers = 8
/** A trail grows through several kills, and yet stays short enough to be verified after each. */
const cyclesPerWorkspace = 10
const environments = ['development', 'staging']

/** What a worker has made: `development NAME` or `staging NAME` by value, and `team NAME`. */
type State = ReadonlyMap<string, string>
type Step = { readonly method: string; readonly path: string; readonly body?: unknown; readonly after: State }
type Place = { readonly workspace: string; readonly project: Project; readonly prefix: string; readonly since: string }
type Worker = {
  readonly prefix: string
  state: State
  /** What the state is if the request that was cut off has happened. */
  pending: State | undefined
}
/** A whole number from 0 up to the one given, from a seed that is told where a run fails. */
type Dice = (below: number) => number

let database: Awaited<ReturnType<typeof createDatabase>>
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

test(`${cycles} times kill -9 while secrets are written loses nothing that was acknowledged and leaves nothing half-applied`, {
  timeout: 300_000,
}, async () => {
  const seed = Number(process.env.COFFER_TEST_SEED ?? randomInt(2 ** 31))
  try {
    await killAgainAndAgain(createDice(seed))
  } catch (error) {
    console.error(`The dice of this run: COFFER_TEST_SEED=${seed}`)
    throw error
  }
})

async function killAgainAndAgain(dice: Dice): Promise<void> {
  let service = await serve(database.settings)
  const owner = { email: 'owner@example.com', name: 'Owner', password }
  const { body } = await service.call<SignedIn>('POST', '/v1/auth/register', { body: owner })
  const token = body.accessToken
  const survived = new Map<Place, State>()
  let written = 0
  for (let cycle = 0; cycle < cycles; cycle++) {
    const place = await prepare(service, token, cycle)
    const load = startLoad(service, token, place, dice)
    const enough = dice(80)
    await until(() => load.acknowledged.length > enough || undefined, 30_000, 'the load runs')
    await new Promise((resolve) => setTimeout(resolve, dice(6)))
    await service.destroy()
    await load.ended
    expect(load.unexpected).toEqual([])
    written += load.acknowledged.length

    await expectWholeRows(place.project)
    service = await serve(database.settings)
    const found = await readState(service, token, place)
    for (const { prefix, state, pending } of load.workers) {
      const own = new Map([...found].filter(([name]) => name.includes(` ${prefix}`)))
      const possible = [state, ...(pending ? [pending] : [])].map(sorted)
      expect(possible, `what ${prefix} has made`).toContainEqual(sorted(own))
    }
    await expectRecorded(service, token, place, load.acknowledged)
    survived.set(place, found)
  }
  expect(written).toBeGreaterThan(cycles * 20)
  // Later kills have taken nothing away from what had survived the earlier ones.
  for (const [place, state] of survived) expect(await readState(service, token, place)).toEqual(state)
  expect((await service.stop()).code).toBe(0)
  expect(await runProgram(['doctor'], database.settings)).toMatchObject({ code: 0 })
}

/** A project of its own for every cycle, now and then in a workspace of its own. */
async function prepare(service: Serving, token: string, cycle: number): Promise<Place> {
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

/** Workers that write one request after another, each under names of its own, until the service is gone. */
function startLoad(service: Serving, token: string, place: Place, dice: Dice) {
  /** The ids of the requests that were answered with a success. */
  const acknowledged: string[] = []
  const unexpected: string[] = []
  const own = Array.from({ length: workers }, (_, index): Worker => {
    return { prefix: `${place.prefix}W${index}_`, state: new Map(), pending: undefined }
  })
  const work = async (worker: Worker) => {
    for (let count = 0; ; count++) {
      const { method, path, body, after } = nextStep(worker, count, place, dice)
      worker.pending = after
      try {
        const response = await fetch(service.url + path, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const text = await response.text()
        if (response.status !== 200 && response.status !== 201) {
          unexpected.push(`${method} ${path}: ${response.status} ${text}`)
          return
        }
        acknowledged.push(response.headers.get('x-request-id') ?? '')
        worker.state = after
        worker.pending = undefined
      } catch {
        return
      }
    }
  }
  return { workers: own, acknowledged, unexpected, ended: Promise.all(own.map(work)) }
}

function nextStep({ prefix, state }: Worker, count: number, place: Place, dice: Dice): Step {
  const workspace = `/v1/workspace/${place.workspace}`
  const secrets = `${workspace}/project/${place.project.slug}/secret`
  const names = [...new Set([...state.keys()].filter((key) => !key.startsWith('team')).map((key) => key.split(' ')[1]))]
  const inDevelopment = names.filter((name) => state.has(`development ${name}`))
  const [one = '', other = '', third = ''] = shuffled(inDevelopment, dice)
  const fresh = `${prefix}${count}`
  const value = `value ${count} of ${prefix}`
  const after = new Map(state)
  const rename = (from: string, to: string) => {
    for (const environment of environments) {
      const old = after.get(`${environment} ${from}`)
      if (old !== undefined) after.set(`${environment} ${to}`, old)
      after.delete(`${environment} ${from}`)
    }
  }
  const choice =
    third === ''
      ? 'bulk'
      : (['single', 'single', 'bulk', 'batch', 'batch', 'rename', 'delete', 'trash', 'team'] as const)[dice(9)]
  switch (choice) {
    case 'bulk': {
      const wanted = Array.from({ length: 12 }, (_, index) => ({
        key: `${fresh}_${index}`,
        value: `${value} ${index}`,
      }))
      for (const environment of environments) {
        for (const { key, value } of wanted) after.set(`${environment} ${key}`, value)
      }
      return { method: 'POST', path: secrets, body: { environments, secrets: wanted }, after }
    }
    case 'batch': {
      const operations = [
        { op: 'rename', key: one, to: fresh },
        { op: 'set', key: other, value },
        { op: 'delete', key: third },
        ...[1, 2, 3].map((index) => ({ op: 'set', key: `${fresh}_${index}`, value })),
      ]
      rename(one, fresh)
      after.set(`development ${other}`, value).delete(`development ${third}`)
      for (const index of [1, 2, 3]) after.set(`development ${fresh}_${index}`, value)
      return { method: 'POST', path: `${secrets}/batch`, body: { environmentId: 'development', operations }, after }
    }
    case 'rename':
      rename(one, fresh)
      return { method: 'PUT', path: `${secrets}/${one}`, body: { name: fresh, values: [] }, after }
    case 'delete':
      after.delete(`development ${one}`)
      return { method: 'DELETE', path: `${secrets}/${one}?environmentId=development`, after }
    case 'trash':
      for (const environment of environments) after.delete(`${environment} ${one}`)
      return { method: 'DELETE', path: `${secrets}/${one}`, after }
    case 'team':
      after.set(`team ${fresh}`, '')
      return { method: 'POST', path: `${workspace}/team`, body: { name: fresh }, after }
    default:
      after.set(`development ${one}`, value)
      return { method: 'PUT', path: `${secrets}/${one}/value`, body: { environmentId: 'development', value }, after }
  }
}

async function readState(service: Serving, token: string, { workspace, project, prefix }: Place): Promise<State> {
  const root = `/v1/workspace/${workspace}`
  const secrets = await service.call<Secret[]>('GET', `${root}/project/${project.slug}/secret`, { token })
  expect(secrets.status, secrets.text).toBe(200)
  const teams = await service.call<Team[]>('GET', `${root}/team`, { token })
  const nameOf = (id: string) => project.environments.find((environment) => environment.id === id)?.name ?? ''
  const values = secrets.body.flatMap(({ name, values }) =>
    values.map(({ environmentId, value = '' }): [string, string] => [`${nameOf(environmentId)} ${name}`, value]),
  )
  const own = teams.body.filter(({ name }) => name.startsWith(prefix))
  return new Map([...values, ...own.map(({ name }): [string, string] => [`team ${name}`, ''])])
}

/** The chain holds, and every acknowledged request is in it. */
async function expectRecorded(service: Serving, token: string, place: Place, requests: string[]): Promise<void> {
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

/** What no answer shows: versions and revisions follow on each other, and current values and counts agree with them. */
async function expectWholeRows(project: Project): Promise<void> {
  const { settings, dataDir } = database
  const url = settings.COFFER_DATABASE_URL
  const store: Engine = url === undefined ? openSqlite(join(dataDir, 'coffer.db')) : openPostgres(url)
  const ids = anyOf(project.environments.map(({ id }) => id))
  try {
    const gaps = await store.all(sql`
      select environment_id, secret_id from secret_version where environment_id ${ids}
      group by environment_id, secret_id having count(*) <> max(version) or min(version) <> 1`)
    const strays = await store.all(sql`
      select v.secret_id from secret_version v
      left join secret_value c on c.environment_id = v.environment_id and c.secret_id = v.secret_id and c.owner_id = ''
      where v.environment_id ${ids} and (c.version is null or c.version < v.version
        or (c.version = v.version and ((c.sealed is null) <> (v.sealed is null) or c.sealed <> v.sealed)))`)
    const unversioned = await store.all(sql`
      select c.secret_id from secret_value c
      left join secret_version v
        on v.environment_id = c.environment_id and v.secret_id = c.secret_id and v.version = c.version
      where c.environment_id ${ids} and v.version is null`)
    expect({ gaps, strays, unversioned }).toEqual({ gaps: [], strays: [], unversioned: [] })
    const counted = await store.all<Record<string, number>>(sql`
      select e.revision, e.total_secrets as total,
        (select count(distinct revision) from (
          select environment_id, revision from secret_version
          union all select environment_id, revision from secret_rename) r where r.environment_id = e.id) as revisions,
        (select coalesce(max(revision), 0) from (
          select environment_id, revision from secret_version
          union all select environment_id, revision from secret_rename) r where r.environment_id = e.id) as newest,
        (select count(*) from secret_value c where c.environment_id = e.id and c.sealed is not null) as live
      from environment e where e.id ${ids}`)
    expect(counted).toHaveLength(project.environments.length)
    for (const { revision, total, revisions, newest, live } of counted) {
      expect({ revisions, newest, total }).toEqual({ revisions: revision, newest: revision, total: live })
    }
    const [secrets] = await store.all<Record<string, number>>(sql`
      select total_secrets as total,
        (select count(*) from secret s where s.project_id = p.id and s.trashed_at is null) as live
      from project p where p.id = ${project.id}`)
    expect(secrets?.total).toBe(secrets?.live)
  } finally {
    await store.close()
  }
}

const sorted = (state: State) => [...state].sort(([a], [b]) => (a < b ? -1 : 1))

function shuffled<Item>(list: readonly Item[], dice: Dice): Item[] {
  return list
    .map((item) => ({ item, rank: dice(1_000_000) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item)
}

/** Mulberry32: small, and the same on every machine. */
function createDice(seed: number): Dice {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
