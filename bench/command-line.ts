/** The command line as it is published, in processor time beside an empty program on the same Node. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildPackage } from '../cli/build.ts'
import { endService } from './engine.ts'
import { median } from './load.ts'
import type { Bench } from './measure.ts'
import { startService } from './process.ts'
import type { CommandRow } from './report.ts'
import { makeFolder, removeFolder } from './scratch.ts'
import { createProject, seed } from './seed.ts'

const title = 'Command line'
const secretCount = 100
const atOnce = 50
/**
 * The clock of the processor time of ended children ticks only a hundred times a second: with half as many, the ratio of
 * one round would be off by 0.06.
 */
const batch = 10

type Variables = Readonly<Record<string, string>>
type Plan = { readonly name: string; readonly goal?: number; readonly args: readonly string[] }

const command = ['--', 'true']
/** The least that `coffer run` has to do: one read, one decryption and one child. It shows how near the goals can be. */
const read = `process.getBuiltinModule('node:http').get(process.env.COFFER_URL + '/v1/workspace/main/project/command/secret'
  + '?resolve=true&environmentId=' + process.env.COFFER_ENVIRONMENT,
  { headers: { authorization: 'Bearer ' + process.env.COFFER_TOKEN } }, (response) => {
    const chunks = []
    response.setEncoding('utf8').on('data', (chunk) => chunks.push(chunk)).on('end', () => {
      JSON.parse(chunks.join(''))
      start()
    })
  })`
const decrypt = `const crypto = process.getBuiltinModule('node:crypto')
const key = Buffer.from(crypto.hkdfSync('sha256', 'token', 'salt', 'info', 32))
crypto.createDecipheriv('aes-256-gcm', key, Buffer.alloc(12)).update(Buffer.alloc(10_000))`
const start = `function start() {
  process.getBuiltinModule('node:child_process').spawn('true', { stdio: 'inherit' }).on('exit', process.exit)
}`
const plans: readonly Plan[] = [
  { name: 'coffer --help', goal: 1.4, args: ['--help'] },
  { name: 'least work of coffer run', args: ['-e', [start, decrypt, read].join('\n')] },
  { name: 'coffer run, 100 secrets', goal: 2, args: ['run', ...command] },
  { name: 'least work of coffer run --offline', args: ['-e', [start, decrypt, 'start()'].join('\n')] },
  { name: 'coffer run --offline, 100 secrets', goal: 1.7, args: ['run', '--offline', '--quiet', ...command] },
]
const together = `${atOnce} coffer run at once`

export async function measureCommandLine(bench: Bench): Promise<void> {
  const wanted = plans.filter(({ name }) => bench.wants(title, name))
  const wantsTogether = bench.wants(title, together)
  if (wanted.length === 0 && !wantsTogether) return
  bench.progress(`${title}: building`)
  const [dataDir, folder, home] = [makeFolder(), makeFolder(), makeFolder()]
  await buildPackage(folder)
  const service = await startService(dataDir)
  try {
    const seeded = await seed(service)
    const { environmentId } = await createProject({ service, seeded }, 'command', secretCount)
    const env = {
      PATH: process.env.PATH ?? '',
      HOME: home,
      COFFER_URL: service.url,
      COFFER_TOKEN: seeded.token,
      COFFER_WORKSPACE: 'main',
      COFFER_PROJECT: 'command',
      COFFER_ENVIRONMENT: environmentId,
    }
    const program = join(folder, 'coffer.js')
    const empty = () => run(['-e', '0'], env)
    // Fills the offline cache.
    await run([program, 'run', ...command], env)
    const cpuRatios = new Map<string, Measured[]>()
    const rounds = bench.options.rounds * 3
    for (let round = 1; round <= rounds; round++) {
      bench.progress(`${title}: round ${round} of ${rounds}`)
      for (const { name, args } of wanted) {
        const own = args[0] === '-e' ? args : [program, ...args]
        // Beside each row: other work on the machine comes and goes within a round.
        const referenceMs = await cpuOf(empty)
        const ms = await cpuOf(() => run(own, env))
        cpuRatios.set(name, [...(cpuRatios.get(name) ?? []), { ms, referenceMs }])
      }
    }
    for (const { name, goal } of wanted) bench.addCommand(rowOf(name, cpuRatios.get(name) ?? [], 'processor', goal))
    if (wantsTogether) {
      const measured: Measured[] = []
      for (let round = 1; round <= bench.options.rounds; round++) {
        bench.progress(`${together}: round ${round} of ${bench.options.rounds}`)
        const referenceMs = await timeOf(empty)
        measured.push({ referenceMs, ms: await timeOf(() => run([program, 'run', ...command], env)) })
      }
      bench.addCommand(rowOf(together, measured, 'elapsed'))
    }
  } finally {
    await endService(service, dataDir)
    removeFolder(folder)
    removeFolder(home)
  }
}

type Measured = { readonly ms: number; readonly referenceMs: number }

function rowOf(name: string, measured: readonly Measured[], kind: CommandRow['kind'], goal?: number): CommandRow {
  return {
    name,
    kind,
    ms: median(measured.map(({ ms }) => ms)),
    referenceMs: median(measured.map(({ referenceMs }) => referenceMs)),
    ratio: median(measured.map(({ ms, referenceMs }) => ms / referenceMs)),
    ...(goal !== undefined && { goal }),
  }
}

async function run(args: readonly string[], env: Variables): Promise<void> {
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`${args.slice(1).join(' ')} exited with ${code}`)
}

async function cpuOf(once: () => Promise<void>): Promise<number> {
  const before = childrenCpuMs()
  for (let index = 0; index < batch; index++) await once()
  return (childrenCpuMs() - before) / batch
}

async function timeOf(once: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: atOnce }, once))
  return performance.now() - startedAt
}

/** The processor time of all children that have ended, and of their children. */
function childrenCpuMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) * 10
}
