/** Measures one row: alternates between the service and its reference, and takes the median of the rounds. */
import type { Case } from './case.ts'
import { manyRounds } from './goal.ts'
import { type Generator, median, type Result } from './load.ts'
import type { Options } from './options.ts'
import type { CommandRow, Memory, Report, Row, Section } from './report.ts'

export type Bench = {
  readonly options: Options
  readonly generator: Generator
  readonly report: Report
  /** Whether --only selects the row. */
  wants(title: string, name: string): boolean
  /** Status text, overwritten by the next. */
  progress(text: string): void
  openSection(title: string, reference: string): Section
  addRow(section: Section, row: Row): void
  addCommand(row: CommandRow): void
  addMemory(memory: Memory): void
  skip(line: string): void
  elapsedMs(): number
}

type Round = { readonly service: Result; readonly reference: Result; readonly commits?: number }

type MeasureOptions = {
  readonly name?: string
  readonly minSeconds?: number
  readonly isSlowToWarmUp?: boolean
  readonly needsMany?: boolean
  readonly commits?: (() => Promise<number>) | undefined
}

export async function measureCase(bench: Bench, one: Case, measureOptions: MeasureOptions = {}): Promise<Row> {
  const { generator, options } = bench
  const { name = one.name, minSeconds = 1, commits } = measureOptions
  const ask = async (seconds: number) => generator.run({ ...one.service, ...(await one.renew?.()), seconds })
  const askBare = (seconds: number) => generator.run({ ...one.bare, seconds })
  bench.progress(`${name}: warming up`)
  // Both together, for as long as each is measured later: until then much of the code is not compiled yet.
  const warmUp = options.rounds * options.seconds
  for (let time = 0; time < (measureOptions.isSlowToWarmUp ? 4 : 1); time++) {
    await Promise.all([ask(warmUp), askBare(warmUp)])
  }
  const rounds: Round[] = []
  const count = measureOptions.needsMany ? manyRounds(options.rounds) : options.rounds
  for (let round = 1; round <= count; round++) {
    bench.progress(`${name}: round ${round} of ${count}`)
    const reference = await askBare(options.seconds)
    const service = await ask(Math.max(options.seconds, minSeconds))
    rounds.push({ reference, service, ...(commits && { commits: await commits() }) })
  }
  return rowOf(name, one.service.connections, rounds)
}

export function rowOf(name: string, connections: number, rounds: readonly Round[]): Row {
  const medianOf = (figure: (round: Round) => number) => median(rounds.map(figure))
  const hasCommits = rounds.every(({ commits }) => commits !== undefined)
  return {
    name,
    connections,
    perSecond: medianOf(({ service }) => service.perSecond),
    referencePerSecond: medianOf(({ reference }) => reference.perSecond),
    ratio: medianOf(({ service, reference }) => service.perSecond / reference.perSecond),
    ...(hasCommits && { commitRatio: medianOf(({ service, commits = Number.NaN }) => service.perSecond / commits) }),
    p50Ms: medianOf(({ service }) => service.p50Ms),
    p99Ms: medianOf(({ service }) => service.p99Ms),
    referenceSpread: medianOf(({ reference }) => reference.p99Ms / reference.p50Ms),
    errors: rounds.reduce((sum, { service }) => sum + service.errors, 0),
  }
}

export async function closeCase(one: Case): Promise<void> {
  await one.bare.process.stop()
  await one.close?.()
}
