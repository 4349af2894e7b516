/** The bench's output, chart and command line; bench/run.test.ts runs the bench itself. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { drawChart } from '../bench/chart.ts'
import { postgresPlans, sqlitePlans } from '../bench/engine.ts'
import { goalOf } from '../bench/goal.ts'
import { percentileMs, readHistogram } from '../bench/latency.ts'
import { help, readOptions } from '../bench/options.ts'
import { type Report, type Row, rowLine, toMarkdown } from '../bench/report.ts'
import { times } from './tier.ts'

const row: Row = {
  name: 'read one',
  connections: 64,
  perSecond: 12_345.6,
  referencePerSecond: 30_000,
  ratio: 0.41,
  p50Ms: 4,
  p99Ms: 12,
  referenceSpread: 2.5,
  errors: 0,
}
const durable: Row = { ...row, name: 'write one', connections: 16, ratio: 0.1, commitRatio: 2.5 }
const report: Report = {
  at: '2026-01-02T03:04:05.678Z',
  node: 'v24.0.0',
  processor: 'Processor <1>',
  cores: 2,
  generator: 'wrk',
  seconds: 1,
  rounds: 3,
  tookSeconds: 60,
  sections: [
    { title: 'SQLite', reference: 'bare node:http', rows: [row, durable] },
    { title: 'PostgreSQL', reference: 'bare node:http', rows: [] },
    { title: 'SQLite, growth', reference: 'bare node:http', rows: [{ ...row, name: '100 secrets: read one' }] },
  ],
  starts: [{ engine: 'SQLite', firstMs: 900, laterMs: 400, idleMb: 100, loadedMb: 170, commitsPerSecond: 1_500 }],
  commands: [{ name: 'coffer --help', kind: 'processor', ms: 45, referenceMs: 35, ratio: 1.29, goal: 1.4 }],
  skipped: ['PostgreSQL is skipped.'],
}

test('a row shows its ratio to the reference, and a durable row also to raw commits', () => {
  expect(rowLine(row).split(/\s{2,}/)).toEqual([
    'read one',
    '64',
    '12,346',
    '30,000',
    '0.41',
    '4.00',
    '12.0',
    '3.0',
    '2.5',
    '0',
  ])
  expect(rowLine(durable).split(/\s{2,}/)).toContain('2.50')
})

const microsOfRequests = fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 4, maxLength: 200 })

test('the histogram of wrk keeps only requests that were sent, without the added ones', () => {
  fc.assert(
    fc.property(microsOfRequests, fc.integer({ min: 100, max: 20_000 }), (sent, durationMicros) => {
      const connections = 2
      const intervalMicros = Math.floor(durationMicros / Math.floor(sent.length / connections))
      const added = sent
        .filter((micros) => micros >= 2 * intervalMicros)
        .flatMap((micros) =>
          Array.from({ length: Math.ceil(micros / intervalMicros) }, (_, step) => micros - (step + 1) * intervalMicros),
        )
        .filter((micros) => micros > intervalMicros)
      const pairs = countEach([...sent, ...added]).map(([micros, count]) => `${micros}:${count}`)
      const output = `Requests/sec: 1\nhistogram ${durationMicros} ${sent.length} ${pairs.join(' ')}\n`
      const left = [...readHistogram(output, connections)].filter(([, count]) => count !== 0)
      expect(left.sort(([a], [b]) => a - b)).toEqual(countEach(sent))
    }),
    { numRuns: times(200, 2_000) },
  )
  expect(() => readHistogram('histogram 1000 100 7:99', 64)).toThrow('unknown format')
})

function countEach(numbers: readonly number[]): [number: number, count: number][] {
  const counts = Map.groupBy(numbers, (number) => number)
  return [...counts].map(([number, same]): [number, number] => [number, same.length]).sort(([a], [b]) => a - b)
}

test('a percentile is the latency that this share of the requests did not exceed', () => {
  const histogram = readHistogram('histogram 1000000 100 1000:50 2000:48 9000:1 30000:1', 64)
  expect([0.5, 0.51, 0.99, 1].map((share) => percentileMs(histogram, share))).toEqual([1, 2, 9, 30])
  expect(percentileMs(readHistogram('histogram 1000000 0', 64), 0.5)).toBeNaN()
})

test('the Markdown has a table for each measured section, and says what was skipped', () => {
  const text = toMarkdown(report)
  expect(text).toContain('| read one | 64 | 12,346 | 30,000 | 0.41 |  | 4.00 | 12.0 | 3.0 | 2.5 | 0 |')
  expect(text).toContain('| SQLite | 900 | 400 | 100 | 170 | 1,500 |')
  expect(text).toContain('| coffer --help | processor | 45.0 | 35.0 | 1.29 | ≤ 1.4 |')
  expect(text).not.toContain('| PostgreSQL |')
  expect(text).toContain('\nPostgreSQL is skipped.')
})

test('the chart draws a bar for each row of an engine and a tick for each goal', () => {
  const svg = drawChart(report)
  expect(svg.match(/<rect class="bar"/g)).toHaveLength(2)
  expect([goalOf('read one'), goalOf('write one')]).toEqual([0.5, undefined])
  // One for the row with a goal, and one in the legend.
  expect(svg.match(/<line class="goal"/g)).toHaveLength(2)
  expect(svg).toContain('Processor &lt;1&gt;')
  expect(svg).toContain('prefers-color-scheme: dark')
  expect(svg.match(/<text/g)?.length).toBe(svg.match(/<\/text>/g)?.length)
})

test('an invalid option is rejected, and the help explains every option', () => {
  expect(readOptions(['--only', 'Read one', '--only', 'SQLite']).only).toEqual(['read one', 'sqlite'])
  expect(readOptions(['--quick'])).toMatchObject({ rounds: 1, secrets: 10_000, isUnbounded: false })
  expect(readOptions(['--secrets', '0'])).toMatchObject({ secrets: 0, isUnbounded: true })
  expect(() => readOptions(['--rounds', '0'])).toThrow('--rounds must be a whole number of at least 1.')
  expect(() => readOptions(['--fast'])).toThrow()
  for (const name of ['quick', 'only', 'seconds', 'rounds', 'secrets', 'memory', 'markdown', 'json', 'chart', 'help']) {
    expect(help).toContain(`  --${name} `)
  }
})

test('docs/performance.md explains every row', () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/performance.md'), 'utf8')
  for (const { name } of [...sqlitePlans, ...postgresPlans]) expect(page).toContain(name)
})
