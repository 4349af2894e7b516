/** What the kernel saw: between a write that arrives and the answer that acknowledges it lies a sync of the log. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startPostgres } from '../test/postgres.ts'
import { startListening, until } from '../test/program.ts'
import { must } from './ask.ts'
import { bothEngines, type Case, type Trial } from './case.ts'
import { demand } from './program-at-hand.ts'
import { createRegisters } from './register-load.ts'
import { findUnsynced } from './system-calls.ts'
import { register } from './tenant.ts'

const path = '/v1/workspace/main/project/counted/secret'
const atOnce = 6

export const sync: Case = {
  name: 'sync',
  about: 'under strace: no commit is acknowledged before it was synced',
  engines: bothEngines,
  seconds: 15,
  unable() {
    const missing = demand('strace')
    if (missing !== undefined) return missing
    return spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0 ? undefined : 'strace may not trace here'
  },
  async run(trial) {
    const { settings, pids } = await prepare(trial)
    const service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const registers = await createRegisters(trial, service.url, await register(service.url), atOnce)
    const { environmentId, writer } = registers
    const file = join(trial.createFolder(), 'calls')
    const strace = await attach(file, [...pids, service.program.child.pid ?? 0])
    let written = 0
    const write = async (at: number) => {
      const body = { environmentId, value: `number ${++written}` }
      await must(service.url, 'PUT', `${path}/COUNT_${at}/value`, { token: writer, body })
    }
    const due = trial.share(300)
    // One after another first, then several at a time: those share a sync.
    while (written < due / 2 && !trial.isOver()) await write(0)
    while (written < due && !trial.isOver()) await Promise.all(Array.from({ length: atOnce }, (_, at) => write(at)))
    strace.kill('SIGINT')
    await once(strace, 'exit')
    const log = trial.engine === 'sqlite' ? /coffer\.db-wal>/ : /\/pg_wal\/|\/wal\//
    const { acknowledged, syncs, unsynced } = findUnsynced(readFileSync(file, 'utf8'), log)
    for (const line of unsynced) trial.find(`acknowledged without a sync: ${line}`)
    if (acknowledged !== written) trial.find(`${written} writes were acknowledged, and strace saw ${acknowledged}`)
    return { 'acknowledged writes': acknowledged, syncs }
  },
}

async function prepare(trial: Trial) {
  if (trial.engine === 'sqlite') return { settings: (await trial.createDatabase()).settings, pids: [] }
  const postgres = await startPostgres()
  trial.onEnd(() => postgres.stop())
  const pid = Number(readFileSync(join(postgres.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0])
  const settings = { COFFER_DATA_DIR: trial.createFolder(), COFFER_DATABASE_URL: postgres.url }
  return { settings, pids: [pid] }
}

/** Attaches to the processes and to those that they have started. */
async function attach(file: string, pids: readonly number[]): Promise<ChildProcess> {
  const listAll = () => pids.flatMap((pid) => [pid, ...childrenOf(pid)])
  const calls = 'trace=read,write,writev,fsync,fdatasync'
  const args = ['-f', '-y', '-s', '40', '-e', calls, '-o', file, ...listAll().flatMap((pid) => ['-p', String(pid)])]
  const strace = spawn('strace', args, { stdio: 'ignore' })
  await until(() => listAll().every(isTraced) || undefined, 30_000, 'all of them are traced')
  return strace
}

/** With all of its threads; one that has ended meanwhile is no matter. */
function isTraced(pid: number): boolean {
  const tasks = `/proc/${pid}/task`
  if (!existsSync(tasks)) return true
  const traced = (task: string) => /^TracerPid:\s+[1-9]/m.test(readFileSync(`${tasks}/${task}/status`, 'utf8'))
  return readdirSync(tasks).every(traced)
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}
