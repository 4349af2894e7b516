/**
 * `npm run bench:cost`: processor time per request, for the service and the bare server. On a shared machine this says
 * more than requests per second.
 */
import { type Case, createCases, leastWrite } from './case.ts'
import { printRow, readCostOptions } from './cost-table.ts'
import { costGoalOf } from './goal.ts'
import { findGenerator, type Load, median } from './load.ts'
import { closeCase } from './measure.ts'
import { type Running, startService } from './process.ts'
import { ratioText } from './report.ts'
import { makeFolder } from './scratch.ts'
import { seed } from './seed.ts'
import { importThousand, openShare } from './spending-case.ts'
import { planSync } from './sync-plan.ts'

const help = `npm run bench:cost -- [options]

Measures the processor time of one request, for the service and for a bare node:http server that sends the same bytes.

  --only NAME     only rows whose name contains NAME, such as "read one"
  --seconds N     length of each measurement (1)
  --rounds N      number of rounds; the median counts (5)
  --help          print this text
`
const { seconds, rounds, only } = readCostOptions(help, 1)

const generator = findGenerator()
const dataDir = makeFolder()
const running: Running[] = []
try {
  const service = await startService(dataDir)
  running.push(service)
  const seeded = await seed(service)
  const cases = await createCases(service, seeded, running)
  printRow('microseconds of processor time', 'service', 'bare', 'ratio', 'goal')
  for (const one of cases.filter(({ name }) => name.includes(only))) await measure(one)
  for (const plan of [leastWrite, importThousand, openShare, planSync].filter(({ name }) => name.includes(only))) {
    const one = await plan.open({ service, seeded })
    try {
      await measure(one)
    } finally {
      await closeCase(one)
    }
  }
} finally {
  for (const child of running) await child.stop()
}

async function measure({ name, service, bare, renew }: Case): Promise<void> {
  const ask = async () => cost({ ...service, ...(await renew?.()) })
  await ask()
  await cost(bare)
  const pairs: { service: number; bare: number }[] = []
  for (let round = 0; round < rounds; round++) pairs.push({ service: await ask(), bare: await cost(bare) })
  const ours = median(pairs.map((pair) => pair.service))
  const theirs = median(pairs.map((pair) => pair.bare))
  const goal = costGoalOf(name)
  const goalText = goal === undefined ? '' : String(goal * 1_000)
  printRow(name, ours.toFixed(1), theirs.toFixed(1), ratioText(theirs / ours), goalText)
}

async function cost(asked: Omit<Load, 'seconds'> & { readonly process: Running }): Promise<number> {
  const before = asked.process.cpuMs()
  const { perSecond, errors } = await generator.run({ ...asked, seconds })
  if (errors > 0) throw new Error(`${errors} requests failed`)
  return ((asked.process.cpuMs() - before) * 1_000) / (perSecond * seconds)
}
