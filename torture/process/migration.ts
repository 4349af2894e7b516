/** A migration killed before and after the commit of each statement ends in the same schema. */
import { join } from 'node:path'
import { migrate, steps } from '../../server/src/store/migrate.ts'
import { type Settings, startNode } from '../../test/program.ts'
import { startListening } from '../../test/start-server.ts'
import { describeSchema, openEngine } from '../../test/store.ts'
import { bothEngines, type Case } from '../case.ts'
import { register } from '../load/tenant.ts'

const program = join(import.meta.dirname, 'killed-migration.ts')

export const migration: Case = {
  name: 'migration',
  about: 'a migration killed at every statement, before and after its commit',
  engines: bothEngines,
  seconds: 45,
  async run(trial) {
    const uninterrupted = await trial.createDatabase()
    const expected = await withEngine(uninterrupted.settings, async (engine) => {
      await migrate(engine, 1)
      return JSON.stringify(await describeSchema(engine))
    })
    const { settings } = await trial.createDatabase()
    const counts = { statements: steps.length, kills: 0 }
    const due = trial.scale(2 * steps.length)
    const stride = Math.ceil((2 * steps.length) / due)
    for (const [at, { name, statement }] of steps.entries()) {
      if (at % stride === 0 && !trial.isOver()) {
        for (const when of ['before', 'after']) {
          const { signal, err } = await startNode([program, when, JSON.stringify(settings)]).ended
          const done = await withEngine(settings, (engine) => engine.migratedSteps())
          if (signal !== 'SIGKILL') trial.report(`the kill ${when} the commit of ${name} did not happen: ${err}`)
          if (done !== (when === 'before' ? at : at + 1))
            trial.report(`killed ${when} the commit of ${name}, ${done} steps are applied`)
          counts.kills++
        }
        trial.progress(`${counts.kills} of ${due} kills`)
      } else await withEngine(settings, (engine) => engine.migrateStep(at + 1, name, statement, 1))
    }
    const found = await withEngine(settings, async (engine) => {
      if ((await migrate(engine, 1)) !== 0) trial.report('steps were missing after the last kill')
      return JSON.stringify(await describeSchema(engine))
    })
    if (found !== expected) trial.report('the schema differs from that of an uninterrupted run')
    const service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    await register(service.url)
    return counts
  },
}

async function withEngine<Result>(
  settings: Settings,
  work: (engine: ReturnType<typeof openEngine>) => Promise<Result>,
) {
  const engine = openEngine(settings)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}
