/** The wall clock jumps forward and back, by seconds up to years, while the service works. */
import { join } from 'node:path'
import { pick } from '../../test/dice.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case } from '../case.ts'
import { ask, must } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, signIn, verifyTrail } from '../load/tenant.ts'

const [second, hour, day] = [1_000, 3_600_000, 24 * 3_600_000]
const jumps = [second, 59 * second, hour, 26 * hour, 40 * day, 400 * day, 3_650 * day].flatMap((ms) => [ms, -ms])
const movedClock = join(import.meta.dirname, 'moved-clock.ts')
const jwtLifeMs = 15 * 60 * second
/** Maximum offset; later or earlier dates break other software too. */
const [earliest, latest] = [-12_000 * day, 12_000 * day]

export const clock: Case = {
  name: 'clock',
  about: 'jumps of the wall clock, forward and back, under load',
  engines: bothEngines,
  seconds: 25,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const service = await startListening(settings, ['--import', movedClock])
    trial.onEnd(() => service.destroy())
    const registers = await createRegisters(trial, service.url, await register(service.url))
    const counts = { jumps: 0, 'acknowledged writes': 0, reads: 0, 'expired credentials refused': 0 }
    const due = trial.scale(30)
    let offsetMs = 0
    while (counts.jumps < due && !trial.isOver()) {
      const byMs = pick(jumps, trial.dice)
      if (offsetMs + byMs < earliest || offsetMs + byMs > latest) continue
      const { accessToken: jwt } = await must<{ accessToken: string }>(service.url, 'POST', '/v1/auth/exchange', {
        token: registers.writer,
      })
      const load = startLoad(() => service.url, registers)
      const reach = (count: number) =>
        until(
          () => load.acknowledged + load.reads > count || load.unexpected.length > 0 || undefined,
          120_000,
          'the load runs',
        )
      await reach(20)
      offsetMs += byMs
      service.program.child.stdin?.write(`${offsetMs}\n`)
      const confirmation = `clock moved by ${offsetMs}\n`
      await until(() => service.program.out().includes(confirmation) || undefined, 120_000, 'the clock jumps')
      await reach(load.acknowledged + load.reads + 40)
      await load.stop()
      for (const what of load.unexpected) trial.report(`after a jump of ${byMs} ms: ${what}`)
      for (const what of await checkRegisters(service.url, registers))
        trial.report(`after a jump of ${byMs} ms: ${what}`)
      const session = await signIn(service.url)
      for (const what of await verifyTrail(service.url, session)) trial.report(`after a jump of ${byMs} ms: ${what}`)
      const { status } = await ask(service.url, 'GET', '/v1/workspace/main/team', { token: jwt })
      if (byMs > jwtLifeMs && status !== 401) trial.report(`a JWT expired by a jump of ${byMs} ms returned ${status}`)
      if (status >= 500) trial.report(`a JWT after a jump of ${byMs} ms returned ${status}`)
      if (status === 401) counts['expired credentials refused']++
      counts.jumps++
      counts['acknowledged writes'] += load.acknowledged
      counts.reads += load.reads
      trial.progress(`${counts.jumps} of ${due} jumps`)
    }
    return counts
  },
}
