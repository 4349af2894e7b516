/**
 * `npm run bench:nodes`: processor time per request of one and of two processes on one PostgreSQL, with the time of
 * PostgreSQL. Each row is compared with a reference load in the same round.
 */

import { printRow, readCostOptions } from '../cost-table.ts'
import { openPostgres } from '../engine.ts'
import { findGenerator, median } from '../load.ts'
import { type Running, startService } from '../process.ts'
import { makeFolder } from '../scratch.ts'
import { seed, seedAnother } from '../seed.ts'
import { keepCoresBusy } from './busy-cores.ts'
import { openRecord, type RequestRecord } from './recorded.ts'
import { type NodeRow, referenceRows, type Share, serviceRows } from './row.ts'

const help = `npm run bench:nodes -- [options]

Measures the processor time per request of one and two processes on one PostgreSQL, PostgreSQL included. Every core
is kept busy meanwhile, at the lowest priority, so that no load has one to itself.

  --only NAME     only rows whose name contains NAME, such as "two workspaces"
  --seconds N     length of each measurement (2)
  --rounds N      number of rounds; the median counts (5)
  --help          print this text
`
const { seconds, rounds, only } = readCostOptions(help, 2)

type Cost = {
  readonly service: number
  readonly postgres: number
  readonly perSecond: number
  readonly perCommit: number
}

const generator = findGenerator()
const busy = keepCoresBusy()
const engine = await openPostgres()
const dataDir = makeFolder()
const running: Running[] = []
let record: RequestRecord | undefined
try {
  const settings = await engine.prepare()
  const nodes = [await startService(dataDir, settings), await startService(dataDir, settings)] as const
  running.push(...nodes)
  const url = settings.COFFER_DATABASE_URL ?? ''
  record = await openRecord(url)
  const main = await seed(nodes[0])
  const rows = [
    ...serviceRows(nodes, main, await seedAnother(nodes[0], main, 'other')),
    ...(await referenceRows(nodes[0], main, url, running)),
  ]
  const wanted = rows.filter((row) => row.name.includes(only))
  for (const row of wanted) await warmUp(row)
  const side = ['PostgreSQL', 'per commit', 'per second']
  printRow('microseconds per request', 'reference', ...side, 'measured', ...side, 'ratio')
  for (const row of wanted) await compare(row, record)
} finally {
  await record?.close()
  for (const child of running) await child.stop()
  await engine.stop()
  busy.stop()
}

/** Much of the code of a new process is not compiled yet, and a process with half of the requests compiles it later. */
async function warmUp({ shares }: NodeRow): Promise<void> {
  for (const { process } of shares)
    await load(
      shares.map((share) => ({ ...share, process })),
      rounds * seconds,
    )
}

async function compare({ name, reference, shares, hasCounter = false }: NodeRow, record: RequestRecord): Promise<void> {
  const pairs: { one: Cost; two: Cost }[] = []
  for (let round = 0; round < rounds; round++) {
    const one = await measure(reference, record)
    await record.setCounter(hasCounter)
    pairs.push({ one, two: await measure(shares, record) })
    await record.setCounter(false)
  }
  const middle = (figure: (pair: (typeof pairs)[number]) => number, digits = 0) =>
    median(pairs.map(figure)).toFixed(digits)
  const cells = (side: 'one' | 'two') => [
    middle((pair) => pair[side].service),
    middle((pair) => pair[side].postgres),
    // A bare server commits nothing.
    pairs.some((pair) => Number.isNaN(pair[side].perCommit)) ? '' : middle((pair) => pair[side].perCommit, 1),
    middle((pair) => pair[side].perSecond),
  ]
  const ratio = middle(({ one, two }) => (two.service + two.postgres) / (one.service + one.postgres), 2)
  printRow(name, ...cells('one'), ...cells('two'), ratio)
}

async function measure(shares: readonly Share[], record: RequestRecord): Promise<Cost> {
  const serviceMs = () => running.reduce((sum, process) => sum + process.cpuMs(), 0)
  const recorded = await record.count()
  const before = { service: serviceMs(), postgres: engine.cpuMs() }
  const perSecond = await load(shares, seconds)
  const perRequest = (ms: number) => (ms * 1_000) / (perSecond * seconds)
  const cost = {
    service: perRequest(serviceMs() - before.service),
    postgres: perRequest(engine.cpuMs() - before.postgres),
    perSecond,
  }
  const { requests, commits } = await record.count()
  return { ...cost, perCommit: (requests - recorded.requests) / (commits - recorded.commits) }
}

/** Requests per second of all shares. */
async function load(shares: readonly Share[], lengthSeconds: number): Promise<number> {
  const results = await Promise.all(
    shares.map(({ process, request: { path, ...load }, connections }) =>
      generator.run({ ...load, url: process.url + path, connections, seconds: lengthSeconds }),
    ),
  )
  const errors = results.reduce((sum, result) => sum + result.errors, 0)
  if (errors > 0) throw new Error(`${errors} requests failed`)
  return results.reduce((sum, result) => sum + result.perSecond, 0)
}
