/**
 * `npm run bench`: how fast the service is, as ratios to a bare node:http server on the same Node that sends the same
 * bytes, measured in turns within one run. Absolute figures depend on the machine; the ratios much less.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import { type Case, createCases } from './case.ts'
import { measureFederation } from './federation.ts'
import { findGenerator, type Result } from './load.ts'
import { measureMemory } from './memory.ts'
import { type Running, startService } from './process.ts'
import { grow, type Seeded, seed } from './seed.ts'

const help = `npm run bench -- [options]
  --seconds N   of each measurement (2)
  --rounds N    of which the median counts (3)
  --secrets N   how far the store grows in the last part (1000000; 0 leaves it out)
  --memory      a million reads over a thousand environments
  --json FILE   writes the figures
`
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    secrets: { type: 'string', default: '1000000' },
    memory: { type: 'boolean' },
    json: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.help) {
  process.stdout.write(help)
  process.exit()
}
const seconds = Number(options.seconds)
const rounds = Number(options.rounds)

type Row = {
  name: string
  perSecond: number
  barePerSecond: number
  ratio: number
  p50Ms: number
  p99Ms: number
  errors: number
}

const generator = findGenerator()
const dataDir = mkdtempSync(join(tmpdir(), 'coffer-bench-'))
const running: Running[] = []
try {
  console.log(
    `Load by ${generator.name}; median of ${rounds} rounds of ${seconds} s; Node ${process.version}; ${cpus().length} cores.`,
  )
  const first = await startService(dataDir)
  const seeded = await seed(first)
  await first.stop()
  const service = await startService(dataDir)
  running.push(service)
  const idleMb = service.residentMb()
  const cases = await createCases(service, seeded, running)
  heading()
  const rows: Row[] = []
  for (const one of cases) rows.push(await measure(one))
  const commits = rawCommits()
  console.log(`Raw single-row commits of SQLite, synchronous FULL, one at a time: ${commits} a second.`)
  console.log(
    `Second start: ${Math.round(service.startMs)} ms to ready. Resident: ${Math.round(idleMb)} MB idle, ${Math.round(service.residentMb())} MB after the load.`,
  )
  const memory = options.memory ? await measureMemory(service, seeded, generator, showProgress) : undefined
  if (memory) {
    showProgress('')
    console.log(
      `Memory: ${memory.reads} reads over a thousand environments; resident ${memory.beforeMb} MB before, then every 5 s: ${memory.residentMb.join(', ')} MB.`,
    )
  }
  const federation = await measureFederation(seconds, rounds)
  console.log(
    `Exchange of an outside issuer's token, keys at hand: ${federation.federated} a second, ${federation.ratio.toFixed(2)} of the exchange of an API token.`,
  )
  const growth = Number(options.secrets) > 0 ? await measureGrowth(service, seeded, cases, Number(options.secrets)) : []
  if (options.json) {
    const figures = {
      at: new Date().toISOString(),
      node: process.version,
      rows,
      commits,
      federation,
      growth,
      memory,
      startMs: service.startMs,
      idleMb,
    }
    writeFileSync(options.json, `${JSON.stringify(figures, null, 2)}\n`)
  }
} finally {
  for (const child of running) await child.stop()
  rmSync(dataDir, { recursive: true, force: true })
}

async function measure({ name, service, bare }: Case): Promise<Row> {
  const results: { service: Result; bare: Result }[] = []
  await generator.run({ ...service, seconds: 1 })
  await generator.run({ ...bare, seconds: 1 })
  for (let round = 0; round < rounds; round++) {
    results.push({
      bare: await generator.run({ ...bare, seconds }),
      service: await generator.run({ ...service, seconds }),
    })
  }
  const perSecond = median(results.map((result) => result.service.perSecond))
  const barePerSecond = median(results.map((result) => result.bare.perSecond))
  const row = {
    name,
    perSecond: Math.round(perSecond),
    barePerSecond: Math.round(barePerSecond),
    ratio: Number(median(results.map((result) => result.service.perSecond / result.bare.perSecond)).toFixed(2)),
    p50Ms: median(results.map((result) => result.service.p50Ms)),
    p99Ms: median(results.map((result) => result.service.p99Ms)),
    errors: results.reduce((sum, result) => sum + result.service.errors, 0),
  }
  print(row)
  return row
}

/** The same read and list while the store around them grows. */
async function measureGrowth(service: Running, seeded: Seeded, cases: Case[], most: number): Promise<Row[]> {
  const watched = cases.filter(({ name }) => name.startsWith('read one secret, token') || name.startsWith('list 50'))
  const rows: Row[] = []
  let size = 50
  for (const next of [100, 10_000, 1_000_000].filter((count) => count <= most)) {
    const startedAt = performance.now()
    await grow(service, seeded, size, next, (done) => showProgress(`making secrets: ${done} of ${next}`))
    showProgress('')
    console.log(`made ${next} secrets in ${Math.round((performance.now() - startedAt) / 1000)} s`)
    size = next
    for (const one of watched) rows.push(await measure({ ...one, name: `${next}: ${one.name}` }))
  }
  return rows
}

function rawCommits(): number {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-commits-'))
  const database = new DatabaseSync(join(folder, 'raw.db'))
  database.exec('pragma journal_mode = wal; pragma synchronous = full; create table t (a integer, b text)')
  const insert = database.prepare('insert into t values (?, ?)')
  const startedAt = performance.now()
  let count = 0
  while (performance.now() - startedAt < 1_000) insert.run(++count, 'a row')
  database.close()
  rmSync(folder, { recursive: true, force: true })
  return count
}

function showProgress(text: string): void {
  process.stdout.write(`\r${text.padEnd(70)}\r`)
}

function heading(): void {
  console.log(['', 'requests/s', 'bare', 'ratio', 'p50 ms', 'p99 ms', 'errors'].map(column).join(''))
}

function print(row: Row): void {
  const { name, perSecond, barePerSecond, ratio, p50Ms, p99Ms, errors } = row
  const cells = [name, perSecond, barePerSecond, ratio.toFixed(2), p50Ms.toFixed(2), p99Ms.toFixed(2), errors]
  console.log(cells.map(column).join(''))
}

function column(cell: string | number, index: number): string {
  return index === 0 ? String(cell).padEnd(36) : String(cell).padStart(11)
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}
