/** Migrates a SQLite store, and kills itself at one call of `node:fs` during the snapshot before that. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const [stage = '', path = ''] = process.argv.slice(2)
const [name = '', when = ''] = stage.split(' ')
if (name !== 'closeSync' && name !== 'fsyncSync' && name !== 'renameSync') throw new Error(`there is no stage ${stage}`)
const call = fs[name]
Object.assign(fs, {
  [name]: (...args: unknown[]) => {
    if (when === 'before') process.kill(process.pid, 'SIGKILL')
    Reflect.apply(call, fs, args)
    process.kill(process.pid, 'SIGKILL')
  },
})
syncBuiltinESMExports()

const { openSqlite } = await import('../server/src/store/engine/sqlite.ts')
const { migrate } = await import('../server/src/store/migrate.ts')
await migrate(openSqlite(path), 1)
