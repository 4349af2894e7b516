/**
 * Preloaded into a program: kills it at the call number KILL_AT of those that change a file or a database, as a power
 * failure would. Without KILL_AT it prints their number at the end.
 */
import fsPromises, { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import pg from 'pg'

const killAt = Number(process.env.KILL_AT ?? 0)
let calls = 0

function countCalls(target: object, name: string): void {
  const original: unknown = Reflect.get(target, name)
  if (typeof original !== 'function') throw new Error(`${name} is not a function`)
  Reflect.set(target, name, function (this: unknown, ...args: unknown[]) {
    if (++calls === killAt) process.kill(process.pid, 'SIGKILL')
    return Reflect.apply(original, this, args)
  })
}

const handle = await open(import.meta.filename)
for (const name of ['writeFile', 'sync', 'read']) countCalls(Object.getPrototypeOf(handle), name)
await handle.close()
countCalls(fsPromises, 'rename')
countCalls(DatabaseSync.prototype, 'exec')
countCalls(StatementSync.prototype, 'run')
countCalls(pg.Client.prototype, 'query')
syncBuiltinESMExports()
process.on('exit', () => process.stderr.write(`calls: ${calls}\n`))
