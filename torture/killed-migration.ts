/** A program that migrates a store and kills itself just before or just after its first commit. */
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { migrate } from '../server/src/store/migrate.ts'
import { openEngine } from '../test/store.ts'

const [when = '', settings = '{}'] = process.argv.slice(2)
const engine = openEngine(JSON.parse(settings))
// The book that the migrations keep is no statement of theirs.
await engine.migratedSteps()

const end = () => process.kill(process.pid, 'SIGKILL')
const isCommit = (text: unknown) => text === 'commit'

const exec = DatabaseSync.prototype.exec
DatabaseSync.prototype.exec = function (text) {
  if (isCommit(text) && when === 'before') end()
  Reflect.apply(exec, this, [text])
  if (isCommit(text) && when === 'after') end()
}

const query: (...args: unknown[]) => unknown = pg.Client.prototype.query
Object.assign(pg.Client.prototype, {
  query(this: pg.Client, ...args: unknown[]): unknown {
    if (isCommit(args[0]) && when === 'before') end()
    const result = Reflect.apply(query, this, args)
    if (isCommit(args[0]) && when === 'after') return Promise.resolve(result).then(end)
    return result
  },
})

await migrate(engine, Date.now())
await engine.close()
