/** How fresh the offline cache of a folder is, for people. */
import type { Context } from '../context.ts'
import { describeDuration } from '../duration.ts'
import { isSet } from '../environment.ts'
import { CliError } from '../error.ts'
import { listSources, type Source } from '../source/source.ts'
import { findCacheKey } from './cache-key.ts'
import { openCacheFile } from './offline-cache.ts'

/** The age that `coffer run` accepts unless it is told otherwise. */
const maxAgeMs = 24 * 3_600_000

export async function describeCache(ctx: Context): Promise<string> {
  const { COFFER_CACHE } = ctx.env
  if (COFFER_CACHE && !isSet(COFFER_CACHE)) return 'switched off by COFFER_CACHE'
  try {
    const states = await Promise.all(listSources(ctx).map((source) => describeSource(ctx, source)))
    return [...new Set(states)].join('; ')
  } catch (error) {
    // No project or environment is chosen.
    if (error instanceof CliError) return 'none'
    throw error
  }
}

async function describeSource(ctx: Context, source: Source): Promise<string> {
  const { env, now } = ctx
  const key = await findCacheKey(env, source.url, { mayCreate: false })
  const cached = key && openCacheFile(env, { ...source, onUnresolved: 'error' }, key)?.read(now())
  if (!cached) return 'none: coffer run makes it'
  const ageMs = now() - cached.fetchedAt
  return `${describeDuration(ageMs)} old${ageMs > maxAgeMs ? ', too old to be used' : ''}`
}
