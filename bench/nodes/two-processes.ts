/** Two processes on one PostgreSQL with half of the connections each, compared with one process with all of them. */
import { readOne, writeOne } from '../case.ts'
import { type Engine, endService } from '../engine.ts'
import type { Result } from '../load.ts'
import { type Bench, closeCase, rowOf } from '../measure.ts'
import { startService } from '../process.ts'
import { makeFolder } from '../scratch.ts'
import { seed } from '../seed.ts'

const title = 'PostgreSQL, two processes'
const plans = [readOne, writeOne]

export const wantsNodes = (bench: Bench) => plans.some(({ name }) => bench.wants(title, name))

export async function measureNodes(bench: Bench, engine: Engine): Promise<void> {
  const wanted = plans.filter(({ name }) => bench.wants(title, name))
  if (wanted.length === 0) return
  bench.progress(`${title}: starting`)
  const { generator, options } = bench
  const dataDir = makeFolder()
  const settings = await engine.prepare()
  const first = await startService(dataDir, settings)
  const second = await startService(dataDir, settings)
  try {
    const world = { service: first, seeded: await seed(first) }
    const section = bench.openSection(title, 'one process')
    for (const plan of wanted) {
      const opened = await plan.open(world)
      const { connections, url } = opened.service
      const firstHalf = { ...opened.service, connections: connections / 2 }
      const secondHalf = { ...firstHalf, url: url.replace(first.url, second.url) }
      const askOne = (seconds: number) => generator.run({ ...opened.service, seconds })
      const askTwo = async (seconds: number) =>
        combine(await Promise.all([firstHalf, secondHalf].map((load) => generator.run({ ...load, seconds }))))
      bench.progress(`${plan.name}: warming up`)
      await askTwo(options.rounds * options.seconds)
      const rounds: { reference: Result; service: Result }[] = []
      for (let round = 1; round <= options.rounds; round++) {
        bench.progress(`${plan.name}: round ${round} of ${options.rounds}`)
        rounds.push({ reference: await askOne(options.seconds), service: await askTwo(options.seconds) })
      }
      await closeCase(opened)
      bench.addRow(section, rowOf(plan.name, connections, rounds))
    }
  } finally {
    await second.stop()
    await endService(first, dataDir)
  }
}

function combine(results: readonly Result[]): Result {
  const sum = (figure: (result: Result) => number) => results.reduce((total, result) => total + figure(result), 0)
  return {
    perSecond: sum(({ perSecond }) => perSecond),
    p50Ms: Math.max(...results.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
    errors: sum(({ errors }) => errors),
  }
}
