/** Reads the secrets of a source: from the service, or from the offline cache while the service cannot be reached. */
import { ApiError, ConnectionError, openSecrets, type Secrets, type SecretsOptions, type Snapshot } from '@coffer/sdk'
import { findCacheKey } from '../cache/cache-key.ts'
import { type Cached, type CacheFile, openCacheFile } from '../cache/offline-cache.ts'
import { connectOptions } from '../connect-options.ts'
import type { Context } from '../context.ts'
import { describeDuration } from '../duration.ts'
import { CliError } from '../error.ts'
import type { Settings } from '../place/place.ts'
import type { Source } from '../source/source.ts'
import { quickTransport } from './quick-transport.ts'

export type ReadOptions = {
  readonly onUnresolved: 'error' | 'keep' | 'empty'
  readonly isOffline: boolean
  readonly usesCache: boolean
  readonly maxAgeMs: number
}

export type Opened = {
  readonly source: Source
  readonly snapshot: Snapshot
  readonly cache: CacheFile | undefined
  /** Asks the service for changes, and keeps the cache up to date. Throws if it cannot. */
  refresh(signal: AbortSignal): Promise<Snapshot>
}

const platform = { transport: quickTransport }
/** One attempt before the cache is used. */
const impatient = { timeoutMs: 2_000, retries: 0, platform }
/** About ten seconds for a service that hangs, two for one that refuses connections. */
const patient = { timeoutMs: 5_000, retries: 3, platform }

/** How exact the age of the cache is. */
const sameAgeMs = 60_000

const outageCodes =
  /^(TIMEOUT|ECONN(REFUSED|RESET|ABORTED)|ENOTFOUND|EAI_AGAIN|E(HOST|NET)(UNREACH|DOWN)|ETIMEDOUT|EPIPE|EADDRNOTAVAIL)$/

/** A certificate that is not accepted, or a refusal, is no outage. */
const isOutage = (error: unknown): boolean =>
  error instanceof ApiError
    ? error.status >= 502 && error.status <= 504
    : error instanceof ConnectionError && outageCodes.test(error.code)

export const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError && [401, 403, 404].includes(error.status)

export async function openSource(
  ctx: Context,
  source: Source,
  options: ReadOptions,
  settings: Settings,
): Promise<Opened> {
  const { url, onUnresolved } = { ...source, ...options }
  const key = options.usesCache ? await findCacheKey(ctx.env, url, { mayCreate: true }) : undefined
  const cache = key && openCacheFile(ctx.env, { ...source, onUnresolved }, key)
  const cached = cache?.read(ctx.now())
  if (options.isOffline) {
    const { snapshot, fetchedAt } = requireCached(ctx, source, cached, options)
    ctx.out.note(`coffer: offline; the secrets of ${source.label} are ${ageOf(ctx, fetchedAt)} old.`)
    return { source, snapshot, cache, refresh: async () => snapshot }
  }
  const open = (limits: Partial<SecretsOptions>, snapshot: Snapshot | undefined) =>
    openSecrets({
      ...connectOptions(ctx, limits, settings),
      ...(source.workspace !== undefined && { workspace: source.workspace }),
      ...(source.project !== undefined && { project: source.project }),
      ...(source.environment !== undefined && { environment: source.environment }),
      ...(snapshot && { snapshot }),
      onUnresolved,
      // Every failure is reported; the cache is used here instead.
      staleIfErrorMs: -1,
    })
  const keep = (secrets: Secrets) => {
    const snapshot = secrets.snapshot()
    // The same values have just been written, by an earlier run or by the last poll.
    if (snapshot.etag !== undefined && snapshot.etag === kept.etag && ctx.now() - kept.at < sameAgeMs) return snapshot
    kept = { etag: snapshot.etag, at: ctx.now() }
    if (cache && !cache.write(snapshot, ctx.now())) ctx.out.detail('coffer: the offline cache cannot be written.')
    return snapshot
  }
  let kept = { etag: cached?.snapshot.etag, at: cached?.fetchedAt ?? 0 }
  const snapshot = await readFirst()
  let watched: Secrets | undefined
  return {
    source,
    snapshot,
    cache,
    async refresh(signal) {
      watched ??= await open({}, snapshot)
      await watched.refresh({ signal })
      return keep(watched)
    },
  }

  async function readFirst(): Promise<Snapshot> {
    try {
      if (!cached) return keep(await open(patient, undefined))
      const secrets = await open(impatient, cached.snapshot)
      await secrets.refresh()
      return keep(secrets)
    } catch (error) {
      if (isRefusal(error)) cache?.remove()
      if (isRefusal(error) && error.status === 404 && source.project !== undefined) {
        const { connect } = await import('../connect.ts')
        const { requireEnvironment } = await import('../secret/project.ts')
        const project = { api: connect(ctx, patient), path: { ws: source.workspace ?? '', prj: source.project } }
        await requireEnvironment(project, source.environment ?? '')
      }
      if (!cached) throw error
      if (isOutage(error) && ctx.now() - cached.fetchedAt <= options.maxAgeMs) {
        const { message } = error as Error
        ctx.out.warn(
          `coffer: ${message} Using the secrets of ${source.label} from ${ageOf(ctx, cached.fetchedAt)} ago.`,
        )
        return cached.snapshot
      }
      // The service asks for patience, or the cache is too old to be used.
      const isWorthwhile = isOutage(error) || (error instanceof ApiError && error.status === 429)
      if (!isWorthwhile) throw error
      return keep(await open(patient, undefined))
    }
  }
}

const ageOf = (ctx: Context, fetchedAt: number) => describeDuration(ctx.now() - fetchedAt)

function requireCached(ctx: Context, source: Source, cached: Cached | undefined, { maxAgeMs }: ReadOptions): Cached {
  if (!cached) {
    throw new CliError(
      'runFailed',
      `There is no offline cache of ${source.label}.`,
      'the same command without --offline',
    )
  }
  if (ctx.now() - cached.fetchedAt > maxAgeMs) {
    throw new CliError(
      'runFailed',
      `The offline cache of ${source.label} is ${ageOf(ctx, cached.fetchedAt)} old.`,
      '--cache-max-age with a longer time',
    )
  }
  return cached
}
