/** `npm run torture`: provokes the failures that are known to break similar services, and reports every violation. */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { bothEngines, type EngineKind } from './case.ts'
import { cases } from './cases.ts'
import { fullMinutes, type Result, runTrial, stopSharedPostgres } from './trial.ts'

/** Practically no limit: a slow machine must not do less. */
const shortMinutes = 120
const list = cases.map(
  ({ name, about, engines }) => `  ${name.padEnd(12)}${about}${engines.length === 1 ? ` (${engines[0]})` : ''}`,
)
const help = `npm run torture -- [options]
  --minutes N   maximum duration (${fullMinutes}); the amount of work is scaled to it
  --short       a little of everything without a time limit; the tests run this
  --only CASES  names from the list below, separated by commas
  --engine E    sqlite or postgres (default: both)
  --seed N      repeat the random choices of an earlier run; the timing of threads and disks still differs
  --previous F  a folder with a checkout of the version before, whose nodes the case upgrade replaces
  --json FILE   write counts and findings
  --help

Cases:
${list.join('\n')}

Exits with 1 if there are findings. Uses only temporary folders and loopback.
Root on Debian is needed for disk and backup-disk, and to install pgbouncer, redis-server and strace if they are missing.
`
const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string' },
    short: { type: 'boolean' },
    only: { type: 'string' },
    engine: { type: 'string' },
    seed: { type: 'string' },
    previous: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.help) {
  process.stdout.write(help)
  process.exit()
}

const minutes = Number(options.minutes ?? (options.short ? shortMinutes : fullMinutes))
/** Fraction of a full run. */
const amount = options.short ? 1 / 60 : minutes / fullMinutes
const seed = Number(options.seed ?? randomInt(2 ** 31))
const names = options.only?.split(',')
const unknown = names?.find((name) => !cases.some((one) => one.name === name))
const isEngine = options.engine === undefined || bothEngines.some((engine) => engine === options.engine)
if (!(minutes > 0) || !Number.isInteger(seed) || unknown !== undefined || !isEngine) {
  process.stderr.write(`${unknown === undefined ? 'Invalid option' : `Unknown case "${unknown}"`}: see --help.\n`)
  process.exit(2)
}

const length = options.short ? '--short' : `--minutes ${minutes}`
const chosen = cases.filter(({ name }) => names === undefined || names.includes(name))
const trials = chosen.flatMap((one) => one.engines.filter(isWanted).map((engine) => ({ one, engine })))
const endsAt = performance.now() + minutes * 60_000
const results: Result[] = []
const heading = options.short ? 'Short torture' : `Torture of at most ${minutes} minutes`
console.log(`${heading}; seed ${seed}; Node ${process.version}.`)
try {
  for (const [at, { one, engine }] of trials.entries()) {
    // Time that a case does not use goes to the following ones.
    const remainingSeconds = trials.slice(at).reduce((sum, trial) => sum + trial.one.seconds, 0)
    const timeMs = Math.max(0, (endsAt - performance.now()) * (one.seconds / remainingSeconds))
    const where = `${one.name} on ${engine}`
    showProgress(where)
    const progress = (text: string) => showProgress(`${where}: ${text}`)
    const result = await runTrial({ one, engine, seed, amount, timeMs, previous: options.previous, progress })
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
    `${where}${`${seconds} s`.padStart(6)}  ${findings.length === 0 ? 'no findings' : `${findings.length} FINDINGS`}  ${done.join(', ')}`,
  )
  for (const finding of findings) console.log(`    ${finding.slice(0, 2_000)}`)
  if (findings.length > 0)
    console.log(`    repeat: npm run torture -- --only ${name} --engine ${engine} --seed ${seed} ${length}`)
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
