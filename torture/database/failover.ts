/** A PostgreSQL with a synchronous standby loses its primary under load: nothing acknowledged may be lost. */

import { startReplicatedPostgres } from '../../test/standby.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import type { Case, Trial } from '../case.ts'
import { pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'

export const failover: Case = {
  name: 'failover',
  about: 'two nodes on a PostgreSQL whose synchronous standby takes over under load',
  engines: ['postgres'],
  seconds: 60,
  async run(trial) {
    const counts = {
      failovers: 0,
      'acknowledged writes': 0,
      reads: 0,
      'refused with 503': 0,
      'slowest return in ms': 0,
    }
    const due = trial.scale(4)
    while (counts.failovers < due && !trial.isOver()) {
      const { returnMs, load } = await failOverOnce(trial)
      counts.failovers++
      counts['acknowledged writes'] += load.acknowledged
      counts.reads += load.reads
      counts['refused with 503'] += load.refused
      counts['slowest return in ms'] = Math.max(counts['slowest return in ms'], Math.round(returnMs))
      trial.progress(`${counts.failovers} of ${due} failovers, writes succeed after ${Math.round(returnMs)} ms`)
    }
    return counts
  },
}

async function failOverOnce(trial: Trial) {
  const postgres = await startReplicatedPostgres()
  trial.onEnd(() => postgres.stop())
  const settings = { COFFER_DATA_DIR: trial.createFolder(), COFFER_DATABASE_URL: postgres.url }
  const nodes = [await startListening(settings), await startListening(settings)]
  for (const node of nodes) trial.onEnd(() => node.destroy())
  const [first, second] = nodes.map(({ url }) => url)
  const url = first ?? ''
  const session = await register(url)
  const registers = await createRegisters(trial, url, session)
  let asked = 0
  const load = startLoad(() => (asked++ % 2 ? (second ?? url) : url), registers, { refusals: [503], staleMs: 1_000 })
  const reach = (count: number, what: string) =>
    until(() => load.acknowledged > count || load.unexpected.length > 0 || undefined, 120_000, what)
  await reach(20, 'writes succeed')
  await pause(trial.dice(500))
  await postgres.failOver()
  const promotedAt = performance.now()
  await reach(load.acknowledged, 'writes succeed again')
  const returnMs = performance.now() - promotedAt
  await reach(load.acknowledged + 20, 'writes go on')
  await load.stop()
  for (const what of load.unexpected) trial.report(what)
  for (const what of await checkRegisters(url, registers)) trial.report(what)
  for (const what of await verifyTrail(url, session)) trial.report(what)
  for (const node of nodes) if (node.program.hasEnded()) trial.report('a node exited')
  return { returnMs, load }
}
