/**
 * `npm run bench:cost`: processor time per request, for the service and the bare server. On a shared machine this says
 * more than requests per second.
 */
import { createCases } from './case.ts'
import { printRow, readCostOptions } from './cost-table.ts'
import { findGenerator, type Load, median } from './load.ts'
import { type Running, startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { seed } from './seed.ts'

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
  const cases = await createCases(service, await seed(service), running)
  printRow('microseconds of processor time', 'service', 'bare', 'ratio')
  for (const { name, service, bare } of cases.filter((one) => one.name.includes(only))) {
    await cost(service)
    await cost(bare)
    const pairs: { service: number; bare: number }[] = []
    for (let round = 0; round < rounds; round++) pairs.push({ service: await cost(service), bare: await cost(bare) })
    const ours = median(pairs.map((pair) => pair.service))
    const theirs = median(pairs.map((pair) => pair.bare))
    printRow(name, ours.toFixed(1), theirs.toFixed(1), (theirs / ours).toFixed(2))
  }
} finally {
  for (const child of running) await child.stop()
}

async function cost(asked: Omit<Load, 'seconds'> & { readonly process: Running }): Promise<number> {
  const before = asked.process.cpuMs()
  const { perSecond, errors } = await generator.run({ ...asked, seconds })
  if (errors > 0) throw new Error(`${errors} requests failed`)
  return ((asked.process.cpuMs() - before) * 1_000) / (perSecond * seconds)
}
