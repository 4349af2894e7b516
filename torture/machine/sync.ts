/** Seen by the kernel: the log is synced between the arrival of a write and its acknowledgement. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startPostgres } from '../../test/postgres.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { must } from '../load/ask.ts'
import { createRegisters } from '../load/register-load.ts'
import { register } from '../load/tenant.ts'
import { requireProgram } from '../required-program.ts'
import { findUnsynced } from './system-calls.ts'

const path = '/v1/workspace/main/project/counted/secret'
const atOnce = 6

export const sync: Case = {
  name: 'sync',
  about: 'under strace: no commit is acknowledged before it is synced',
  engines: bothEngines,
  seconds: 15,
  unable() {
    const missing = requireProgram('strace')
    if (missing !== undefined) return missing
    return spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0
      ? undefined
      : 'strace may not trace processes here'
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
    const due = trial.scale(300)
    // Sequential first, then concurrent: concurrent writes share a sync.
    while (written < due / 2 && !trial.isOver()) await write(0)
    while (written < due && !trial.isOver()) await Promise.all(Array.from({ length: atOnce }, (_, at) => write(at)))
    strace.kill('SIGINT')
    await once(strace, 'exit')
    const log = trial.engine === 'sqlite' ? /coffer\.db-wal>/ : /\/pg_wal\/|\/wal\//
    const { acknowledged, syncs, unsynced } = findUnsynced(readFileSync(file, 'utf8'), log)
    for (const line of unsynced) trial.report(`acknowledged without a sync: ${line}`)
    if (acknowledged !== written) trial.report(`${written} writes were acknowledged, but strace saw ${acknowledged}`)
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

/** Attaches to the processes and their children. */
async function attach(file: string, pids: readonly number[]): Promise<ChildProcess> {
  const listAll = () => pids.flatMap((pid) => [pid, ...childrenOf(pid)])
  const calls = 'trace=read,write,writev,fsync,fdatasync'
  const args = ['-f', '-y', '-s', '40', '-e', calls, '-o', file, ...listAll().flatMap((pid) => ['-p', String(pid)])]
  const strace = spawn('strace', args, { stdio: 'ignore' })
  await until(() => listAll().every(isTraced) || undefined, 120_000, 'all processes are traced')
  return strace
}

/** Checks all threads; a process that has ended counts as traced. */
function isTraced(pid: number): boolean {
  const tasks = `/proc/${pid}/task`
  if (!existsSync(tasks)) return true
  const traced = (task: string) => /^TracerPid:\s+[1-9]/m.test(readFileSync(`${tasks}/${task}/status`, 'utf8'))
  return readdirSync(tasks).every(traced)
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}
