/** PgBouncer in transaction mode is stopped (SIGTERM) or killed (SIGKILL) and restarted; Coffer recovers by itself. */
import { startPgbouncer } from '../../test/pgbouncer.ts'
import { startPostgres } from '../../test/postgres.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import type { Case, Trial } from '../case.ts'
import { ask, pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'
import { requireProgram } from '../required-program.ts'
import { runOnPostgres } from '../trial.ts'

/** A node behind PgBouncer cannot set its time limits itself. */
const timeouts = [`statement_timeout = '30s'`, `idle_in_transaction_session_timeout = '10s'`]
const staleMs = 1_000

export const pgbouncer: Case = {
  name: 'pgbouncer',
  about: 'two nodes behind a PgBouncer that is stopped or killed and restarted under load',
  engines: ['postgres'],
  seconds: 40,
  unable: () => requireProgram('pgbouncer'),
  async run(trial) {
    const { pooler, nodes } = await prepare(trial)
    const [first = '', second = ''] = nodes.map(({ url }) => url)
    const session = await register(first)
    const registers = await createRegisters(trial, first, session)
    let asked = 0
    const load = startLoad(() => (asked++ % 2 ? second : first), registers, { refusals: [503], staleMs })
    const counts = {
      restarts: 0,
      'acknowledged writes': 0,
      reads: 0,
      'refused with 503': 0,
      'slowest return in ms': 0,
    }
    const reach = (isReached: () => boolean, what: string) =>
      until(() => isReached() || load.unexpected.length > 0 || undefined, 60_000, what)
    const due = trial.scale(30)
    while (counts.restarts < due && !trial.isOver() && load.unexpected.length === 0) {
      const started = load.acknowledged
      await reach(() => load.acknowledged > started + 20, 'writes succeed')
      await pause(trial.dice(300))
      const refused = load.refused
      await pooler.end(counts.restarts % 2 === 0 ? 'SIGTERM' : 'SIGKILL')
      await reach(() => load.refused > refused, 'requests are refused')
      await pause(trial.dice(400))
      await pooler.start()
      const [returnedAt, before] = [performance.now(), load.acknowledged]
      await reach(() => load.acknowledged > before, 'writes succeed again')
      const returnMs = Math.round(performance.now() - returnedAt)
      counts['slowest return in ms'] = Math.max(counts['slowest return in ms'], returnMs)
      for (const { url } of nodes) {
        const { status } = await ask(url, 'GET', '/readyz')
        if (status !== 200) trial.report(`/readyz returned ${status} after PgBouncer came back`)
      }
      counts.restarts++
      trial.progress(`${counts.restarts} of ${due} restarts, writes succeed after ${returnMs} ms`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    await pause(staleMs)
    for (const { url, program } of nodes) {
      for (const what of await checkRegisters(url, registers)) trial.report(what)
      for (const what of await verifyTrail(url, session)) trial.report(what)
      if (program.hasEnded()) trial.report('a node exited')
    }
    return { ...counts, 'acknowledged writes': load.acknowledged, reads: load.reads, 'refused with 503': load.refused }
  },
}

async function prepare(trial: Trial) {
  const postgres = await startPostgres()
  trial.onEnd(() => postgres.stop())
  for (const timeout of timeouts) await runOnPostgres(postgres.url, `alter role coffer set ${timeout}`)
  const pooler = await startPgbouncer(postgres.port)
  trial.onEnd(() => pooler.stop())
  const settings = {
    COFFER_DATA_DIR: trial.createFolder(),
    COFFER_DATABASE_URL: `${pooler.urlOf('postgres')}?pgbouncer=true`,
  }
  const nodes = [await startListening(settings), await startListening(settings)]
  for (const node of nodes) trial.onEnd(() => node.destroy())
  return { pooler, nodes }
}
