/** Migrates a SQLite store, and kills itself at one call of `node:fs` during the snapshot before that. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { openSqlite } from '../server/src/store/engine/sqlite.ts'
import { migrate } from '../server/src/store/migrate.ts'

const [stage = '', path = ''] = process.argv.slice(2)
const [name = '', when = ''] = stage.split(' ')
if (name !== 'closeSync' && name !== 'fsyncSync' && name !== 'renameSync') throw new Error(`there is no stage ${stage}`)
const engine = openSqlite(path)
const call = fs[name]
Object.assign(fs, {
  [name]: (...args: unknown[]) => {
    if (when === 'before') process.kill(process.pid, 'SIGKILL')
    Reflect.apply(call, fs, args)
    process.kill(process.pid, 'SIGKILL')
  },
})
// The modules that are loaded see the replacement too.
syncBuiltinESMExports()
await migrate(engine, 1)
