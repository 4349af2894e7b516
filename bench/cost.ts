/**
 * `npm run bench:cost`: processor time per request, for the service and the bare server. On a shared machine this says
 * more than requests per second.
 */
import { type Asked, type Case, createCases, leastWrite, type Plan } from './case.ts'
import { printRow, readCostOptions } from './cost-table.ts'
import { sendExactly } from './exact.ts'
import { costGoalOf } from './goal.ts'
import { createLeastImport, createLeastPlan } from './least-bulk.ts'
import { findGenerator, median } from './load.ts'
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

/** Requests per round of a row that is too slow for a round of one second. */
const slowRequests = 20
/** The least work of the slow rows, measured in this process in the same rounds. */
const leastOf = new Map<Plan, () => () => void>([
  [importThousand, createLeastImport],
  [planSync, createLeastPlan],
])

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
      await measure(one, leastOf.get(plan)?.())
    } finally {
      await closeCase(one)
    }
  }
} finally {
  for (const child of running) await child.stop()
}

async function measure({ name, service, bare, renew }: Case, least?: () => void): Promise<void> {
  const ask = async () => {
    const asked = { ...service, ...(await renew?.()) }
    return least ? costOfEach(asked) : cost(asked)
  }
  await ask()
  await cost(bare)
  const measured: { service: number; bare: number; least: number }[] = []
  for (let round = 0; round < rounds; round++) {
    measured.push({ service: await ask(), bare: await cost(bare), least: least ? leastCost(least) : 0 })
  }
  const medianOf = (figure: 'service' | 'bare' | 'least') => median(measured.map((round) => round[figure]))
  const [ours, theirs] = [medianOf('service'), medianOf('bare')]
  const goal = costGoalOf(name)
  const goalText = goal === undefined ? '' : String(goal * 1_000)
  printRow(name, ours.toFixed(1), theirs.toFixed(1), ratioText(theirs / ours), goalText)
  if (least) printRow(`${name}, least work`, medianOf('least').toFixed(1), '', ratioText(medianOf('least') / ours))
}

async function cost(asked: Asked): Promise<number> {
  const before = asked.process.cpuMs()
  const { perSecond, errors } = await generator.run({ ...asked, seconds })
  if (errors > 0) throw new Error(`${errors} requests failed`)
  return ((asked.process.cpuMs() - before) * 1_000) / (perSecond * seconds)
}

async function costOfEach(asked: Asked): Promise<number> {
  const before = asked.process.cpuMs()
  await sendExactly({ ...asked, seconds }, slowRequests)
  return ((asked.process.cpuMs() - before) * 1_000) / slowRequests
}

function leastCost(least: () => void): number {
  const before = process.cpuUsage()
  for (let index = 0; index < slowRequests; index++) least()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / slowRequests
}
