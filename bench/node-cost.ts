/**
 * `npm run bench:nodes`: processor time per request of one and of two processes on one PostgreSQL, with the time of
 * PostgreSQL. Each row is compared with one process under the same load, in the same round.
 */
import { parseArgs } from 'node:util'
import { readers, writers } from './case.ts'
import { openPostgres } from './engine.ts'
import { findGenerator, type Load, median } from './load.ts'
import { readNumber, readOrEnd } from './options.ts'
import { type Running, startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { bearer, type Seeded, seed, seedAnother } from './seed.ts'

const help = `npm run bench:nodes -- [options]

Measures the processor time per request of one and two processes on one PostgreSQL, PostgreSQL included.

  --only NAME     only rows whose name contains NAME, such as "two workspaces"
  --seconds N     length of each measurement (2)
  --rounds N      number of rounds; the median counts (5)
  --help          print this text
`
const { seconds, rounds, only } = readOrEnd(help, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '2' },
      rounds: { type: 'string', default: '5' },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  })
  return {
    ...values,
    seconds: readNumber('--seconds', values.seconds, 1),
    rounds: readNumber('--rounds', values.rounds, 1),
  }
})

type Request = Omit<Load, 'seconds' | 'connections' | 'url'> & { readonly path: string }
/** A request to one process by some of the connections. */
type Share = { readonly process: Running; readonly request: Request; readonly connections: number }
type Cost = { readonly service: number; readonly postgres: number; readonly perSecond: number }

const generator = findGenerator()
const engine = await openPostgres()
const dataDir = makeFolder()
const running: Running[] = []
try {
  const settings = await engine.prepare()
  const first = await startService(dataDir, settings)
  running.push(first)
  const second = await startService(dataDir, settings)
  running.push(second)
  const main = await seed(first)
  const other = await seedAnother(first, main, 'other')
  const one = writeTo('main', main)
  const two = writeTo('other', other)
  const half = writers / 2
  const rows: { name: string; reference: Share[]; shares: Share[] }[] = [
    {
      name: 'write, one workspace',
      reference: [{ process: first, request: one, connections: writers }],
      shares: [first, second].map((process) => ({ process, request: one, connections: half })),
    },
    {
      name: 'write, one workspace, double load',
      reference: [{ process: first, request: one, connections: writers }],
      shares: [first, second].map((process) => ({ process, request: one, connections: writers })),
    },
    {
      name: 'write, two workspaces',
      reference: [one, two].map((request) => ({ process: first, request, connections: half })),
      shares: [
        { process: first, request: one, connections: half },
        { process: second, request: two, connections: half },
      ],
    },
    {
      name: 'read',
      reference: [{ process: first, request: readOf('main', main), connections: readers }],
      shares: [first, second].map((process) => ({
        process,
        request: readOf('main', main),
        connections: readers / 2,
      })),
    },
  ]
  const wanted = rows.filter((row) => row.name.includes(only))
  // Much of the code of a new process is not compiled yet, and a process with half of the requests compiles it later.
  for (const { shares } of wanted) {
    for (const process of [first, second])
      await measure(
        shares.map((share) => ({ ...share, process })),
        rounds * seconds,
      )
  }
  print('microseconds per request', 'one', 'PostgreSQL', 'two', 'PostgreSQL', 'ratio', 'one/s', 'two/s')
  for (const { name, reference, shares } of wanted) {
    const pairs: { one: Cost; two: Cost }[] = []
    for (let round = 0; round < rounds; round++)
      pairs.push({ one: await measure(reference), two: await measure(shares) })
    const middle = (figure: (pair: (typeof pairs)[number]) => number, digits = 0) =>
      median(pairs.map(figure)).toFixed(digits)
    print(
      name,
      middle(({ one }) => one.service),
      middle(({ one }) => one.postgres),
      middle(({ two }) => two.service),
      middle(({ two }) => two.postgres),
      middle(({ one, two }) => (two.service + two.postgres) / (one.service + one.postgres), 2),
      middle(({ one }) => one.perSecond),
      middle(({ two }) => two.perSecond),
    )
  }
} finally {
  for (const child of running) await child.stop()
  await engine.stop()
}

function writeTo(ws: string, { writer, environmentId }: Seeded): Request {
  const body = JSON.stringify({ environmentId, value: 'a new value §' })
  return { path: `/v1/workspace/${ws}/project/api/secret/SECRET_0/value`, headers: bearer(writer), body }
}

function readOf(ws: string, { token, environmentId }: Seeded): Request {
  const path = `/v1/workspace/${ws}/project/api/secret/SECRET_7?environmentId=${environmentId}`
  return { path, headers: bearer(token) }
}

async function measure(shares: readonly Share[], lengthSeconds = seconds): Promise<Cost> {
  const serviceMs = () => running.reduce((sum, process) => sum + process.cpuMs(), 0)
  const before = { service: serviceMs(), postgres: engine.cpuMs() }
  const results = await Promise.all(
    shares.map(({ process, request: { path, ...load }, connections }) =>
      generator.run({ ...load, url: process.url + path, connections, seconds: lengthSeconds }),
    ),
  )
  const errors = results.reduce((sum, result) => sum + result.errors, 0)
  if (errors > 0) throw new Error(`${errors} requests failed`)
  const perSecond = results.reduce((sum, result) => sum + result.perSecond, 0)
  const perRequest = (ms: number) => (ms * 1_000) / (perSecond * lengthSeconds)
  return {
    service: perRequest(serviceMs() - before.service),
    postgres: perRequest(engine.cpuMs() - before.postgres),
    perSecond,
  }
}

function print(name: string, ...cells: string[]): void {
  console.log(name.padEnd(36) + cells.map((cell) => cell.padStart(11)).join(''))
}
