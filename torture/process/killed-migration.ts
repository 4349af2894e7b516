/** Migrates a store and kills itself just before or just after the first commit. */
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { migrate } from '../../server/src/store/migrate.ts'
import { openEngine } from '../../test/store.ts'

const [when = '', settings = '{}'] = process.argv.slice(2)
const engine = openEngine(JSON.parse(settings))
// Creates the migration log first: its commit must not trigger the kill.
await engine.migratedSteps()

const kill = () => process.kill(process.pid, 'SIGKILL')
const isCommit = (text: unknown) => text === 'commit'

const exec = DatabaseSync.prototype.exec
DatabaseSync.prototype.exec = function (text) {
  if (isCommit(text) && when === 'before') kill()
  Reflect.apply(exec, this, [text])
  if (isCommit(text) && when === 'after') kill()
}

const query: (...args: unknown[]) => unknown = pg.Client.prototype.query
Object.assign(pg.Client.prototype, {
  query(this: pg.Client, ...args: unknown[]): unknown {
    if (isCommit(args[0]) && when === 'before') kill()
    const result = Reflect.apply(query, this, args)
    if (isCommit(args[0]) && when === 'after') return Promise.resolve(result).then(kill)
    return result
  },
})

await migrate(engine, Date.now())
await engine.close()
