/**
 * One fault script for every provider: thousands of changes while more than half of all calls fail, in every way that
 * calls fail. In the end each target holds exactly the desired state, and foreign entries are untouched.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createToken,
  engine,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject } from '../../../../../test/secret-project.ts'
import { readSync, type SyncWorld, setUpSync } from '../../../../../test/sync.ts'
import { isDeep, times } from '../../../../../test/tier.ts'
import { everyProvider, type ProviderCase } from '../../../../../test/vendor/every.ts'
import {
  type Fake,
  type FakeRequest,
  type InjectedFailure,
  outboundWithoutSockets,
} from '../../../../../test/vendor/fake.ts'
import { mapSecrets } from '../../../domain/sync/mapping.ts'
import { claimSync, runSync } from '../../../domain/sync/run/run.ts'
import type { Outbound } from '../../../outbound.ts'

/** All providers on SQLite, where a commit is cheap; the database engine makes no difference to a vendor. */
const cases = engine === 'sqlite' ? everyProvider : everyProvider.filter(({ slug }) => /heroku|gitlab|vault/.test(slug))
const changesAtOnce = times(16, 100)
/** The second half is written while the first is only partly pushed. */
const changesPerRound = 2 * changesAtOnce
const rounds = engine === 'sqlite' ? times(3, 6) : 3
const faultRate = 0.55
const { most, inWords } = isDeep ? { most: 1_000, inWords: 'a thousand' } : { most: 60, inWords: '60' }
const keys = Array.from({ length: times(24, 110) }, (_, index) => `KEY_${index}`)

const refused = 'REFUSED'
/** Vendors quote this value when they refuse it. */
const canary = 'canary-4f1c9a77'

/** A seeded generator: every run of the test meets the same faults. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

type Interceptor = (request: FakeRequest) => InjectedFailure | undefined

/** Faults that pass without help; `loseTarget` has the others. */
function createTransientFaults(random: () => number, now: () => number) {
  const later = () => new Date(now() + 2_000).toUTCString()
  const kinds: (() => InjectedFailure)[] = [
    () => ({ kind: 'answer', answer: { status: 429, headers: { 'retry-after': '2' } } }),
    () => ({ kind: 'answer', answer: { status: 429, headers: { 'retry-after': later() } } }),
    () => ({
      kind: 'answer',
      answer: { status: 429, headers: { 'x-ratelimit-reset': String(Math.ceil(now() / 1000) + 2) } },
    }),
    () => ({ kind: 'answer', answer: { status: 500, body: { message: 'boom' } } }),
    () => ({ kind: 'answer', answer: { status: 503, headers: { 'retry-after': '1' } } }),
    () => ({ kind: 'answer', answer: { status: 502, body: '<html>bad gateway</html>' } }),
    () => ({ kind: 'drop', after: false }),
    () => ({ kind: 'drop', after: true }),
    () => ({ kind: 'stall' }),
  ]
  return (): InjectedFailure | undefined =>
    random() < faultRate ? kinds[Math.floor(random() * kinds.length)]?.() : undefined
}

let service: TestService
let owner: TestUser
/** All providers share one service; its requests go to the vendor under test. */
let currentOutbound: Outbound
beforeAll(async () => {
  const outbound: Outbound = { request: (request) => currentOutbound.request(request) }
  service = await startService({ COFFER_SYNC: 'off' }, { outbound, sleep: async () => undefined })
  const person = await registerOwner(service)
  // Sessions expire before the clock gets this far; this token does not.
  const { token } = await createToken(service, person.session, { expiresIn: 'never' })
  owner = { ...person, session: token }
})
afterAll(() => service.stop())

const now = () => service.app.services.now()

describe.each(cases)('$slug', (entry) => {
  test(`ends in the desired state after ${rounds * changesPerRound} changes with 55 % faults`, async () => {
    const seed = 20_261_115
    const random = createRandom(seed)
    const { world, fake, calls, set } = await prepare(entry, random)
    const id = await setUpSync(world, entry.mapping)
    await settle(world, id)
    set.injectFailure = createTransientFaults(random, now)
    let [runs, budget] = [0, 0]
    for (let round = 0; round < rounds; round++) {
      // One entry per page only while there are few: with these faults, a list of a hundred pages would never complete.
      if (fake.pageSize !== undefined) fake.pageSize = round === 0 ? 1 : ([100, 7, 100, 30][round % 4] ?? 100)
      const wanted = new Map<string, string>()
      const runsBefore = runs
      if (round % 5 === 1) runs += await loseTarget(entry, world, id, set)
      if (round % 4 === 2) {
        fake.refusedNames.add(nameOf(entry, refused))
        await world.project.set('development', { [refused]: canary })
      }
      const pool = round === 0 ? keys.slice(0, 5) : keys
      await change(world, random, round, pool)
      runs += await settle(world, id, 1)
      await change(world, random, round, pool)
      for (const [key, value] of Object.entries(await world.project.state('development'))) wanted.set(key, value)
      runs += await settle(world, id)
      if (fake.refusedNames.size > 0) {
        await expectRefusal(id)
        fake.refusedNames.clear()
        await world.project.remove('development', refused)
        wanted.delete(refused)
        runs += await settle(world, id)
      }
      await expectState(entry, world, fake, wanted, `seed ${seed}, round ${round}`)
      // Each change needs at most one call and each run a few reads; a fault adds one call to either.
      const pages = fake.pageSize === undefined ? 1 : Math.ceil((keys.length + 3) / fake.pageSize)
      budget +=
        changesPerRound +
        (runs - runsBefore) * (pages + fake.calls.list(keys.length) + fake.calls.update + fake.calls.look)
    }
    expect(fake.violations).toEqual([])
    await expectNoLeak(world, id)
    expect(calls()).toBeLessThan(budget * 6)
    await world.project.must('DELETE', `/sync/${id}`)
  })

  // The database engine does not affect the number of calls.
  if (engine === 'sqlite') {
    test(`one changed secret among ${inWords}, or the vendor’s maximum, takes as few calls as the vendor allows`, async () => {
      const { world, fake, calls } = await prepare(entry, createRandom(1))
      const { maxItems = most } = entry.provider.limits
      const count = Math.min(most, typeof maxItems === 'function' ? maxItems(fake.target) : maxItems)
      const more = Array.from({ length: count - 1 }, (_, index) => [`KEY_${index + 1}`, 'x'.repeat(8)])
      const values = Object.fromEntries(more)
      await world.project.set('development', values)
      const id = await setUpSync(world, entry.mapping)
      await settle(world, id)
      expect(fake.state().size).toBe(count + foreign(entry).length)
      const before = calls()
      await world.project.set('development', { KEY_50: 'changed!' })
      await settle(world, id)
      expect(calls() - before).toBe(fake.calls.update + fake.calls.look)
      expect(fake.state().get(nameOf(entry, 'KEY_50'))).toBe('changed!')
      // Otherwise the next read of this sync would be counted as a call to the next vendor.
      await world.project.must('DELETE', `/sync/${id}`)
    })
  }
})

/**
 * Faults that need a person: the target disappears, or the credential is refused in mid-run. The sync stops with an
 * error; the person fixes the cause and resumes it.
 */
async function loseTarget(
  entry: ProviderCase,
  world: SyncWorld,
  id: string,
  set: { injectFailure: Interceptor },
): Promise<number> {
  const { injectFailure } = set
  const reachAndResume = async (expected: string) => {
    await world.project.set('development', { KEY_0: `${expected} ${now()}` })
    await runUntil(id, expected)
    set.injectFailure = injectFailure
    world.fake.setTarget(true)
    // Some targets lose all their entries: the test puts back the foreign ones, the sync its own.
    for (const [name, value] of foreign(entry)) world.fake.tamper(name, value)
    await world.project.must('POST', `/sync/${id}/resume`)
  }
  set.injectFailure = () => ({ kind: 'answer', answer: { status: 401 } })
  await reachAndResume('needs_reauth')
  world.fake.setTarget(false)
  set.injectFailure = () => undefined
  await reachAndResume('blocked')
  return settle(world, id)
}

async function runUntil(id: string, expected: string): Promise<void> {
  const { services } = service.app
  for (let runs = 0; runs < 20; ) {
    const sync = await services.store.syncs.find(id)
    if (sync?.state === expected) return
    service.clock.offsetMs += Math.max(0, (sync?.dueAt ?? 0) - now())
    const claimed = await claimSync(services)
    if (!claimed) continue
    await runSync(services, claimed, new AbortController().signal)
    runs++
  }
  throw new Error(`the sync never became ${expected}`)
}

async function runsOf(id: string) {
  const { syncRuns } = service.app.services.store
  const runs = await syncRuns.list(id, 'z', 200)
  return Promise.all(runs.map((run) => syncRuns.find(run.id, id)))
}

/** Neither the refused value nor a credential appears in runs, the audit trail, the log or the list of syncs. */
async function expectNoLeak({ fake, project, provider, owner }: SyncWorld, id: string): Promise<void> {
  const runs = await runsOf(id)
  const audit = await service.call('GET', '/v1/workspace/main/audit?limit=200', { token: owner.session })
  const texts = [
    JSON.stringify(runs),
    audit.text,
    service.logs.join(''),
    JSON.stringify(await project.must('GET', '/sync')),
  ]
  const passwords = provider.auth.flatMap(({ kind, id }) => (kind === 'password' ? (fake.credential[id] ?? []) : []))
  for (const secret of [canary, ...passwords]) for (const text of texts) expect(text.includes(secret)).toBe(false)
}

async function expectRefusal(id: string): Promise<void> {
  const runs = await runsOf(id)
  const isRefused = runs.some((run) =>
    run?.items.some(({ name, outcome }) => name.includes(refused) && outcome === 'failed'),
  )
  expect(isRefused).toBe(true)
}

/** Creates foreign entries, then a project with some secrets. */
async function prepare(entry: ProviderCase, random: () => number) {
  const fake = entry.makeFake(now)
  for (const [name, value] of foreign(entry)) fake.tamper(name, value)
  const set: { injectFailure: Interceptor } = { injectFailure: () => undefined }
  const outbound = outboundWithoutSockets(fake, (request) => set.injectFailure(request))
  currentOutbound = outbound
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY_0: `first ${random()}` })
  const { provider, slug } = entry
  const world: SyncWorld = {
    service,
    owner,
    project,
    fake,
    provider,
    slug,
    running: undefined as never,
  }
  return { world, fake, set, calls: () => outbound.calls.count }
}

const nameOf = ({ provider, mapping }: ProviderCase, key: string) =>
  provider.normaliseName(`${mapping.prefix ?? ''}${key}`)

const foreign = (entry: ProviderCase) =>
  entry.provider.capabilities.read === 'nothing'
    ? []
    : ['FOREIGN_1', 'FOREIGN_2'].map((key) => [nameOf(entry, key), `not ours ${key}`] as const)

async function change(world: SyncWorld, random: () => number, round: number, pool: readonly string[]): Promise<void> {
  const current = await world.project.state('development')
  const changed = new Map<string, string | undefined>()
  for (let index = 0; index < changesAtOnce; index++) {
    const key = pool[Math.floor(random() * pool.length)] ?? ''
    changed.set(key, random() < 0.25 ? undefined : `value ${round} ${index} ${random()}`)
  }
  const operations = [...changed].flatMap(([key, value]) =>
    value !== undefined ? [{ op: 'set', key, value }] : key in current ? [{ op: 'delete', key }] : [],
  )
  await world.project.must('POST', '/secret/batch', { environmentId: 'development', operations })
}

/** Runs due syncs and advances the clock to the next attempt, until everything is pushed or `mostRuns` is reached. */
async function settle(world: SyncWorld, id: string, mostRuns = Number.POSITIVE_INFINITY): Promise<number> {
  const { services } = service.app
  let runs = 0
  while (runs < mostRuns) {
    const sync = await services.store.syncs.find(id)
    if (!sync) throw new Error('the sync is gone')
    if (sync.state === 'blocked' && (sync.reason === 'mass_delete' || sync.reason === 'source')) {
      if (world.fake.refusedNames.size > 0 && sync.reason === 'source') return runs
      await world.project.must('POST', `/sync/${id}/resume`)
    } else if (sync.state !== 'active' && sync.state !== 'failing') {
      throw new Error(`the sync is ${sync.state}: ${sync.lastError}`)
    } else if (
      sync.state === 'active' &&
      sync.changedAt === null &&
      sync.lastOkAt !== null &&
      (sync.dueAt ?? 0) > now()
    ) {
      return runs
    }
    const { dueAt } = (await services.store.syncs.find(id)) ?? { dueAt: null }
    if (dueAt !== null) service.clock.offsetMs += Math.max(0, dueAt - now())
    const claimed = await claimSync(services)
    if (!claimed) continue
    await runSync(services, claimed, new AbortController().signal)
    if (++runs > 3_000) throw new Error('the sync does not settle')
  }
  return runs
}

async function expectState(
  entry: ProviderCase,
  world: SyncWorld,
  fake: Fake,
  wanted: ReadonlyMap<string, string>,
  where: string,
): Promise<void> {
  const { desired } = mapSecrets(entry.provider, entry.mapping, fake.options, wanted)
  const expected = Object.fromEntries([...desired, ...foreign(entry)].sort())
  expect(Object.fromEntries([...fake.state()].sort()), where).toEqual(expected)
  expect(
    (await readSync(world, [...(await world.project.must<{ id: string }[]>('GET', '/sync'))][0]?.id ?? '')).state,
  ).toBe('active')
}
