/** `npm run bench:backup`: minutes and memory of backup, verification and restore of a large store, on SQLite. */
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startArguments, startEnvironment } from '../test/start-command.ts'
import { readNumber, readOrEnd } from './options.ts'
import { startService } from './process.ts'
import { makeFolder } from './scratch.ts'
import { grow, seed } from './seed.ts'

const root = join(import.meta.dirname, '..')
const sampleMs = 50

type Spent = { readonly seconds: number; readonly peakMb: number }

/** Runs an operator's command, and samples the peak of its memory. */
function run(dataDir: string, ...args: string[]): Promise<Spent> {
  const startedAt = performance.now()
  const env = { PATH: process.env.PATH, COFFER_DATA_DIR: dataDir, ...startEnvironment }
  // As `npm run coffer-server` runs it.
  const child = spawn(process.execPath, [...startArguments, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  let peakMb = 0
  const sample = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      // A process that has just ended has no figure any more.
      peakMb = Math.max(peakMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
    } catch {
      // It has just ended.
    }
  }, sampleMs)
  return new Promise((resolve, reject) => {
    child.once('close', (code) => {
      clearInterval(sample)
      if (code === 0) resolve({ seconds: (performance.now() - startedAt) / 1_000, peakMb })
      else reject(new Error(`"${args.join(' ')}" exited with ${code}`))
    })
  })
}

const help = `npm run bench:backup -- [options]

Measures the minutes and the memory of a backup, its verification and its restore, on SQLite.

  --secrets N     size of the store (1000000)
  --help          print this text
`
const { secrets } = readOrEnd(help, (args) => {
  const { values } = parseArgs({
    args,
    options: { secrets: { type: 'string', default: '1000000' }, help: { type: 'boolean', default: false } },
  })
  return { secrets: readNumber('--secrets', values.secrets, 1), help: values.help }
})
const folder = makeFolder()
const [dataDir, restored, file] = [join(folder, 'data'), join(folder, 'restored'), join(folder, 'bench.backup')]
const service = await startService(dataDir)
const world = { service, seeded: await seed(service) }
await grow(world, 50, secrets, (done) => process.stderr.write(`\rcreating secrets: ${done} of ${secrets}`))
process.stderr.write('\n')

const rows: [string, Spent][] = [['backup, while the service runs', await run(dataDir, 'backup', '--no-verify', file)]]
await service.stop()
rows.push(['backup verify', await run(dataDir, 'backup', 'verify', file)])
mkdirSync(restored)
copyFileSync(join(dataDir, 'master.key'), join(restored, 'master.key'))
rows.push(['restore', await run(restored, 'restore', '--move', file)])

const mebibytes = (path: string) => `${(statSync(path).size / 1024 ** 2).toFixed(0)} MiB`
console.log(`${secrets} secrets: database ${mebibytes(join(dataDir, 'coffer.db'))}, backup ${mebibytes(file)}`)
for (const [name, { seconds, peakMb }] of rows) {
  console.log(
    `${name.padEnd(32)} ${(seconds / 60).toFixed(2).padStart(6)} min ${peakMb.toFixed(0).padStart(6)} MB at most`,
  )
}
