/** One row: the service and its reference in turns, and the median of the rounds. */
import type { Case } from './case.ts'
import { manyRounds } from './goal.ts'
import { type Generator, median, type Result } from './load.ts'
import type { Options } from './options.ts'
import type { Report, Row, Section } from './report.ts'

export type Bench = {
  readonly options: Options
  readonly generator: Generator
  readonly report: Report
  /** Whether a row was asked for. */
  wants(title: string, name: string): boolean
  /** Shown and overwritten. */
  progress(text: string): void
  openSection(title: string, reference: string): Section
  addRow(section: Section, row: Row): void
  skip(line: string): void
  elapsedMs(): number
}

type Round = { readonly service: Result; readonly reference: Result; readonly commits?: number }

type Means = {
  readonly name?: string
  readonly minSeconds?: number
  readonly needsMany?: boolean
  readonly commits?: (() => Promise<number>) | undefined
}

export async function measureCase(bench: Bench, one: Case, means: Means = {}): Promise<Row> {
  const { generator, options } = bench
  const { name = one.name, minSeconds = 1, commits } = means
  const ask = async (seconds: number) => generator.run({ ...one.service, ...(await one.renew?.()), seconds })
  const askBare = (seconds: number) => generator.run({ ...one.bare, seconds })
  bench.progress(`${name}: warming up`)
  // Both at once, for as long as each is measured afterwards: until then much of either is not compiled yet.
  const warmUp = options.rounds * options.seconds
  await Promise.all([ask(warmUp), askBare(warmUp)])
  const rounds: Round[] = []
  const count = means.needsMany ? manyRounds(options.rounds) : options.rounds
  for (let round = 1; round <= count; round++) {
    bench.progress(`${name}: round ${round} of ${count}`)
    const reference = await askBare(options.seconds)
    const service = await ask(Math.max(options.seconds, minSeconds))
    rounds.push({ reference, service, ...(commits && { commits: await commits() }) })
  }
  return rowOf(name, one.service.connections, rounds)
}

export function rowOf(name: string, connections: number, rounds: readonly Round[]): Row {
  const middle = (figure: (round: Round) => number) => median(rounds.map(figure))
  const hasCommits = rounds.every(({ commits }) => commits !== undefined)
  return {
    name,
    connections,
    perSecond: middle(({ service }) => service.perSecond),
    referencePerSecond: middle(({ reference }) => reference.perSecond),
    ratio: middle(({ service, reference }) => service.perSecond / reference.perSecond),
    ...(hasCommits && { commitRatio: middle(({ service, commits = Number.NaN }) => service.perSecond / commits) }),
    p50Ms: middle(({ service }) => service.p50Ms),
    p99Ms: middle(({ service }) => service.p99Ms),
    referenceSpread: middle(({ reference }) => reference.p99Ms / reference.p50Ms),
    errors: rounds.reduce((sum, { service }) => sum + service.errors, 0),
  }
}

export async function closeCase(one: Case): Promise<void> {
  await one.bare.process.stop()
  await one.close?.()
}
