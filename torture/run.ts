/** `npm run torture`: mistreats the service in every way that is known to break others, and says what it found. */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { bothEngines, type EngineKind } from './case.ts'
import { cases } from './cases.ts'
import { fullMinutes, type Result, runTrial, stopSharedPostgres } from './trial.ts'

/** As good as no limit: where a machine is slow, less must not be done. */
const shortMinutes = 120
const list = cases.map(
  ({ name, about, engines }) => `  ${name.padEnd(12)}${about}${engines.length === 1 ? ` (${engines[0]})` : ''}`,
)
const help = `npm run torture -- [options]
  --minutes N   how long it takes at most (${fullMinutes}); what is done shrinks with it
  --short       a little of everything, however long it takes: what the tests run
  --only CASES  of the list below, separated by commas
  --engine E    sqlite or postgres (both)
  --seed N      the choices of an earlier run; how threads and disks take turns is never the same
  --json FILE   writes what was done and found
  --help

Cases:
${list.join('\n')}

Ends with 1 where something was found. Everything stays on this machine, in temporary folders and on loopback.
Root on Debian is needed for disk, and to install redis-server and strace where they are missing.
`
const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string' },
    short: { type: 'boolean' },
    only: { type: 'string' },
    engine: { type: 'string' },
    seed: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.help) {
  process.stdout.write(help)
  process.exit()
}

const minutes = Number(options.minutes ?? (options.short ? shortMinutes : fullMinutes))
/** How much is done of what a full run does. */
const amount = options.short ? 1 / 60 : minutes / fullMinutes
const seed = Number(options.seed ?? randomInt(2 ** 31))
const names = options.only?.split(',')
const unknown = names?.find((name) => !cases.some((one) => one.name === name))
const isEngine = options.engine === undefined || bothEngines.some((engine) => engine === options.engine)
if (!(minutes > 0) || !Number.isInteger(seed) || unknown !== undefined || !isEngine) {
  process.stderr.write(
    `${unknown === undefined ? 'An option has no meaning' : `There is no case "${unknown}"`}: see --help.\n`,
  )
  process.exit(2)
}

const length = options.short ? '--short' : `--minutes ${minutes}`
const chosen = cases.filter(({ name }) => names === undefined || names.includes(name))
const trials = chosen.flatMap((one) => one.engines.filter(isWanted).map((engine) => ({ one, engine })))
const overAt = performance.now() + minutes * 60_000
const results: Result[] = []
const bound = options.short ? 'A short torture' : `Torture of ${minutes} minutes at most`
console.log(`${bound}; seed ${seed}; Node ${process.version}.`)
try {
  for (const [at, { one, engine }] of trials.entries()) {
    // What a case does not use is there for those that follow.
    const ahead = trials.slice(at).reduce((sum, trial) => sum + trial.one.seconds, 0)
    const timeMs = Math.max(0, (overAt - performance.now()) * (one.seconds / ahead))
    const where = `${one.name} on ${engine}`
    showProgress(where)
    const progress = (text: string) => showProgress(`${where}: ${text}`)
    const result = await runTrial({ one, engine, seed, amount, timeMs, progress })
    showProgress('')
    results.push(result)
    print(result)
  }
} finally {
  await stopSharedPostgres()
}
summarise()

function isWanted(engine: EngineKind): boolean {
  return options.engine === undefined || options.engine === engine
}

function print({ name, engine, counts, findings, skipped, seconds }: Result): void {
  const where = `${name.padEnd(12)}${engine.padEnd(10)}`
  if (skipped !== undefined) {
    console.log(`${where}skipped: ${skipped}`)
    return
  }
  const done = Object.entries(counts).map(([what, count]) => `${count.toLocaleString('en')} ${what}`)
  console.log(
    `${where}${`${seconds} s`.padStart(6)}  ${findings.length === 0 ? 'nothing found' : `FOUND ${findings.length}`}  ${done.join(', ')}`,
  )
  for (const finding of findings) console.log(`    ${finding.slice(0, 2_000)}`)
  if (findings.length > 0)
    console.log(`    again: npm run torture -- --only ${name} --engine ${engine} --seed ${seed} ${length}`)
}

function summarise(): void {
  const found = results.reduce((sum, { findings }) => sum + findings.length, 0)
  const skipped = results.filter((result) => result.skipped !== undefined).length
  console.log('')
  for (const result of results) print(result)
  console.log(`${results.length - skipped} cases run, ${skipped} skipped, ${found} findings; seed ${seed}.`)
  if (options.json) {
    const report = { at: new Date().toISOString(), node: process.version, minutes, amount, seed, found, results }
    writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`)
  }
  process.exitCode = found === 0 ? 0 : 1
}

function showProgress(text: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r${text.slice(0, 100).padEnd(100)}\r`)
}
