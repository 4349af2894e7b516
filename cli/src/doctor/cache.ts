/** Check of the offline cache and its key. */
import { lstatSync } from 'node:fs'
import { cacheKeyFile } from '../cache/cache-key.ts'
import { describeCache } from '../cache/cache-state.ts'
import type { Context } from '../context.ts'
import { type Check, fail, ok } from './check.ts'

export async function checkCache(ctx: Context): Promise<Check> {
  const path = cacheKeyFile(ctx.env)
  const file = path === undefined ? undefined : lstatSync(path, { throwIfNoEntry: false })
  if (file && process.platform !== 'win32') {
    const isOwn = file.uid === process.getuid?.() && file.isFile()
    if (!isOwn || (file.mode & 0o077) !== 0) {
      return fail('offline cache', `Others can read or replace its key, so it is not used: ${path}`, 'coffer logout')
    }
  }
  const state = await describeCache(ctx)
  return ok('offline cache', file ? `${state}; its key is in ${path}: it protects backups, not against you` : state)
}
