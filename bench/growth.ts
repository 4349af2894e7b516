/** The same read and the same list while the store grows. */
import { listResolved, readOne } from './case.ts'
import { type Engine, endService } from './engine.ts'
import { type Bench, closeCase, measureCase } from './measure.ts'
import { startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { grow, seed } from './seed.ts'

/** The largest size is skipped if creating it would end later than this: a full run must take under ten minutes. */
const budgetMs = 8.75 * 60_000
const largeSize = 1_000_000
const sizes = [100, 10_000, largeSize]
const plans = [readOne, listResolved]
const formatCount = (number: number) => number.toLocaleString('en')

const titleOf = (engine: string) => `${engine}, growth`
const rowName = (size: number, name: string) => `${formatCount(size)} secrets: ${name}`
const wantedPlans = (bench: Bench, engine: string, size: number) =>
  plans.filter(({ name }) => bench.wants(titleOf(engine), rowName(size, name)))
const wantedSizes = (bench: Bench, engine: string) =>
  sizes.filter((size) => size <= bench.options.secrets && wantedPlans(bench, engine, size).length > 0)

export const wantsGrowth = (bench: Bench, engine: string) => wantedSizes(bench, engine).length > 0

export async function measureGrowth(bench: Bench, engine: Engine): Promise<void> {
  if (!wantsGrowth(bench, engine.name)) return
  const title = titleOf(engine.name)
  bench.progress(`${title}: starting`)
  const dataDir = makeFolder()
  const service = await startService(dataDir, await engine.prepare())
  try {
    const seeded = await seed(service)
    const world = { service, seeded }
    const section = bench.openSection(title, 'bare node:http')
    let made = 50
    let msPerSecret = 0
    for (const size of wantedSizes(bench, engine.name)) {
      // Inserts become a little slower as the store grows.
      const neededMs = (size - made) * msPerSecret * 1.2
      if (size >= largeSize && !bench.options.isUnbounded && bench.elapsedMs() + neededMs > budgetMs) {
        const seconds = Math.round(neededMs / 1_000)
        bench.skip(
          `${engine.name} with ${formatCount(size)} secrets is skipped: creating them takes about ${seconds} s here, and the run must end within ten minutes. --secrets ${size} measures it anyway.`,
        )
        break
      }
      const startedAt = performance.now()
      await grow(world, made, size, (done) =>
        bench.progress(`creating secrets: ${formatCount(done)} of ${formatCount(size)}`),
      )
      msPerSecret = (performance.now() - startedAt) / (size - made)
      made = size
      for (const plan of wantedPlans(bench, engine.name, size)) {
        const opened = await plan.open(world)
        bench.addRow(section, await measureCase(bench, opened, { name: rowName(size, plan.name) }))
        await closeCase(opened)
      }
    }
  } finally {
    await endService(service, dataDir)
  }
}
