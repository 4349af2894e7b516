/**
 * `npm run bench`: how fast the service is, as ratios to a bare node:http server on the same Node that sends the same
 * bytes, measured in turns within one run. Absolute figures depend on the machine; the ratios much less.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { drawChart } from './chart.ts'
import { type Engine, measureEngine, openPostgres, postgresPlans, sqlite, sqlitePlans } from './engine.ts'
import { federate } from './federation.ts'
import { maxSpread } from './goal.ts'
import { measureGrowth, wantsGrowth } from './growth.ts'
import { findGenerator } from './load.ts'
import type { Bench } from './measure.ts'
import { measureNodes, wantsNodes } from './nodes.ts'
import { help, type Options, readOptions, readOrEnd } from './options.ts'
import {
  conditionsOf,
  headingLine,
  memoryLine,
  type Report,
  ratioText,
  rowLine,
  startLines,
  toMarkdown,
} from './report.ts'
import { exchange } from './spending-case.ts'

const options = readOrEnd(help, readOptions)
const bench = openBench(options)
const { report } = bench
await measureEngine(bench, sqlite, sqlitePlans)
const postgres = await findPostgres()
try {
  if (postgres) {
    await measureEngine(bench, postgres, postgresPlans)
    await measureNodes(bench, postgres)
  }
  await measureGrowth(bench, sqlite)
  if (postgres) await measureGrowth(bench, postgres)
} finally {
  bench.progress('')
  await postgres?.stop()
}
finish()

function openBench(options: Options): Bench {
  const generator = findGenerator()
  const startedAt = performance.now()
  // With --markdown, what is printed on the way is not the result.
  const say = options.markdown ? console.error : console.log
  const isTerminal = process.stderr.isTTY === true
  const report: Report = {
    at: new Date().toISOString(),
    node: process.version,
    processor: cpus()[0]?.model.trim() ?? 'unknown processor',
    cores: cpus().length,
    generator: generator.name,
    seconds: options.seconds,
    rounds: options.rounds,
    tookSeconds: 0,
    sections: [],
    starts: [],
    skipped: [],
  }
  const elapsedMs = () => performance.now() - startedAt
  const progress = (text: string) => {
    if (isTerminal) process.stderr.write(`\r${(text && `${clock(elapsedMs())}  ${text}`).slice(0, 90).padEnd(90)}\r`)
  }
  const sayAbove = (line: string) => {
    progress('')
    say(line)
  }
  sayAbove(conditionsOf(report))
  if (generator.name === 'autocannon')
    sayAbove('wrk is neither installed nor could it be: autocannon is the weaker load.')
  return {
    options,
    generator,
    report,
    wants: (title, name) => {
      const full = `${title}: ${name}`.toLowerCase()
      return options.only.length === 0 || options.only.some((part) => full.includes(part))
    },
    progress,
    openSection(title, reference) {
      const section = { title, reference, rows: [] }
      report.sections.push(section)
      sayAbove(headingLine(section))
      return section
    },
    addRow(section, row) {
      section.rows.push(row)
      sayAbove(rowLine(row))
    },
    skip(line) {
      report.skipped.push(line)
      sayAbove(line)
    },
    elapsedMs,
  }
}

/** Comes with npm for the usual platforms. */
async function findPostgres(): Promise<Engine | undefined> {
  const title = 'PostgreSQL'
  const isWanted = postgresPlans.some(({ name }) => bench.wants(title, name))
  if (!isWanted && !wantsNodes(bench) && !wantsGrowth(bench, title)) return undefined
  bench.progress('PostgreSQL: starting')
  try {
    return await openPostgres()
  } catch (error) {
    bench.skip(`PostgreSQL is left out: it cannot be started here (${error instanceof Error ? error.message : error}).`)
    return undefined
  }
}

function clock(ms: number): string {
  const seconds = Math.round(ms / 1_000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function finish(): void {
  report.tookSeconds = Math.round(bench.elapsedMs() / 1_000)
  const say = options.markdown ? console.error : console.log
  for (const line of startLines(report.starts)) say(line)
  if (report.memory) say(memoryLine(report.memory))
  const rows = report.sections.flatMap(({ title, rows }) =>
    rows.map((row) => ({ ...row, full: `${title}: ${row.name}` })),
  )
  const spread = rows.filter(({ connections, p50Ms, p99Ms }) => connections === 64 && p99Ms > p50Ms * maxSpread)
  const names = spread
    .map(({ full, referenceSpread }) => `${full} (its reference: ${referenceSpread.toFixed(1)})`)
    .join('; ')
  if (names) say(`p99 is more than ${maxSpread} times p50 in: ${names}.`)
  const [ours, outside] = [exchange, federate].map(({ name }) => rows.find((row) => row.name === name))
  if (ours && outside) {
    say(
      `The exchange of an outside token is ${ratioText(outside.perSecond / ours.perSecond)} of that of a token of ours.`,
    )
  }
  const failed = rows.filter(({ errors, perSecond }) => errors > 0 || !(perSecond > 0))
  for (const { full, errors } of failed) {
    const why = errors > 0 ? `${errors} requests were refused or lost` : 'nothing was answered in time'
    say(`${full}: ${why}. These figures count for nothing.`)
  }
  say(`Took ${clock(bench.elapsedMs())}.`)
  if (options.markdown) console.log(toMarkdown(report))
  if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`)
  if (options.chart) writeFileSync(options.chart, drawChart(report))
  if (rows.length === 0) console.error('Nothing was measured: no row has that in its name.')
  process.exit(failed.length > 0 || rows.length === 0 ? 1 : 0)
}
