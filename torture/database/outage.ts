/** PostgreSQL is stopped `immediate` (like a power failure) or `fast` (like an upgrade); Coffer recovers by itself. */
import { startPostgres } from '../../test/postgres.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import type { Case } from '../case.ts'
import { ask, pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'

export const outage: Case = {
  name: 'outage',
  about: 'PostgreSQL stopped (immediate or fast) and restarted under load',
  engines: ['postgres'],
  seconds: 50,
  async run(trial) {
    const postgres = await startPostgres()
    trial.onEnd(() => postgres.stop())
    const settings = { COFFER_DATA_DIR: trial.createFolder(), COFFER_DATABASE_URL: postgres.url }
    const service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const session = await register(service.url)
    const registers = await createRegisters(trial, service.url, session)
    const load = startLoad(() => service.url, registers, { refusals: [503] })
    const counts = { stops: 0, 'acknowledged writes': 0, reads: 0, 'refused with 503': 0 }
    const due = trial.scale(20)
    while (counts.stops < due && !trial.isOver() && load.unexpected.length === 0) {
      await pause(100 + trial.dice(500))
      if (counts.stops % 2 === 0) await postgres.crash()
      else await postgres.pause()
      await pause(trial.dice(400))
      await postgres.start()
      const before = load.acknowledged
      await until(
        () => load.acknowledged > before + 5 || load.unexpected.length > 0 || undefined,
        120_000,
        'writes succeed again',
      )
      const { status } = await ask(service.url, 'GET', '/readyz')
      if (status !== 200) trial.report(`/readyz returned ${status} after the database came back`)
      counts.stops++
      trial.progress(`${counts.stops} of ${due} stops, ${load.acknowledged} acknowledged writes`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    for (const what of await checkRegisters(service.url, registers)) trial.report(what)
    for (const what of await verifyTrail(service.url, session)) trial.report(what)
    if (service.program.hasEnded()) trial.report('the service exited')
    counts['acknowledged writes'] = load.acknowledged
    return { ...counts, reads: load.reads, 'refused with 503': load.refused }
  },
}
