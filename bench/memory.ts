/**
 * Resident memory of the service on SQLite: after the start, during and after the load of every row and a million reads in
 * a thousand environments, and after a minute without a request.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { leastWrite, type Plan } from './case.ts'
import { sqlitePlans } from './engine.ts'
import type { Generator } from './load.ts'
import { type Bench, closeCase } from './measure.ts'
import { type Running, startService } from './process.ts'
import { makeFolder, removeFolder } from './scratch.ts'
import { apiOf, bearer, type Seeded, seed, type World } from './seed.ts'

const environmentsWanted = 1_000
const readsWanted = 1_000_000
const connections = 64
const roundSeconds = 5
/** About as much as a row of the other sections takes. Processor time, so that a busy machine loads it as much. */
const rowCpuMs = 6_000
const maxRounds = 4
const rowSeconds = 3
const idleSeconds = 60

/** The least work of a write does not reach the service. */
const plans = sqlitePlans.filter((plan) => plan !== leastWrite)

export async function measureMemory(bench: Bench): Promise<void> {
  if (!bench.options.memory) return
  await compileOnce()
  const dataDir = makeFolder()
  // The process that created its store would hold more than one after a restart.
  await (await startService(dataDir)).stop()
  const service = await startService(dataDir)
  try {
    const startMb = service.residentMb()
    const world = { service, seeded: await seed(service) }
    let largest = { mb: 0, after: '' }
    const look = (after: string) => {
      const mb = service.residentMb()
      if (mb > largest.mb) largest = { mb, after }
      bench.progress(`memory: ${after}, ${mb.toFixed(0)} MB`)
    }
    for (const plan of plans) {
      await loadOnce(bench.generator, world, plan)
      look(plan.name)
    }
    await readMany(bench.generator, world, look)
    const loadedMb = service.residentMb()
    bench.progress('memory: idle for a minute')
    await sleep(idleSeconds * 1_000)
    bench.addMemory({ startMb, largest, loadedMb, restedMb: service.residentMb() })
  } finally {
    await service.stop()
    removeFolder(dataDir)
  }
}

/**
 * Node loads a compiler of some 20 MB for a module that it has not compiled before. The package has none to compile, and a
 * service that starts again finds all modules in Node's cache, also those that it loads on demand.
 */
async function compileOnce(): Promise<void> {
  const dataDir = makeFolder()
  const service = await startService(dataDir)
  try {
    const world = { service, seeded: await seed(service) }
    for (const plan of plans) await closeCase(await plan.open(world))
  } finally {
    await service.stop()
    removeFolder(dataDir)
  }
}

async function loadOnce(generator: Generator, world: World, plan: Plan): Promise<void> {
  const opened = await plan.open(world)
  try {
    const until = world.service.cpuMs() + rowCpuMs
    for (let round = 0; round < maxRounds && world.service.cpuMs() < until; round++) {
      await generator.run({ ...opened.service, ...(await opened.renew?.()), seconds: rowSeconds })
    }
  } finally {
    await closeCase(opened)
  }
}

async function readMany(
  generator: Generator,
  { service, seeded }: World,
  onRound: (what: string) => void,
): Promise<void> {
  const paths = await createEnvironments(service, seeded)
  const load = { url: service.url, headers: bearer(seeded.token), paths, connections }
  for (let reads = 0; reads < readsWanted; ) {
    const { perSecond, errors } = await generator.run({ ...load, seconds: roundSeconds })
    if (errors > 0) throw new Error(`${errors} reads failed`)
    reads += Math.round(perSecond * roundSeconds)
    onRound(`${Math.min(reads, readsWanted)} of ${readsWanted} reads`)
  }
}

/** A new project has three environments; each environment gets one secret. */
async function createEnvironments(service: Running, seeded: Seeded): Promise<string[]> {
  const api = apiOf(service, seeded.session)
  const paths: string[] = []
  while (paths.length < environmentsWanted) {
    const slug = `memory-${paths.length}`
    const { environments } = await api.project.create({ ws: 'main' }, { name: slug, slug, teamId: seeded.teamId })
    const ids = environments.map(({ id }) => id)
    const secrets = [{ key: 'DATABASE_URL', value: `postgres://db.example.com/${slug}` }]
    await api.secret.create({ ws: 'main', prj: slug }, { environments: ids, secrets })
    paths.push(...ids.map((id) => `/v1/workspace/main/project/${slug}/secret/DATABASE_URL?environmentId=${id}`))
  }
  return paths.slice(0, environmentsWanted)
}
