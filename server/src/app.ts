/** Assembles the service on its store. The only place where the layers meet. */

import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from './config.ts'
import { createStrangerRecords } from './domain/audit/anonymous-limit.ts'
import { createChainMemory } from './domain/audit/chain-memory.ts'
import { createRecordLimit } from './domain/audit/record-limit.ts'
import { createSetupCode } from './domain/auth/setup-code.ts'
import { createSetupCodeFile } from './domain/auth/setup-code-file.ts'
import { readBackupState } from './domain/backup/state.ts'
import { createChangeFollower } from './domain/cache/change-follower.ts'
import { createCounts } from './domain/cache/count.ts'
import { createEnvironmentVersions } from './domain/cache/environment-version.ts'
import { createPendingChanges } from './domain/cache/pending-change.ts'
import { createResponseCache } from './domain/cache/response-cache.ts'
import { createWorkspaceSnapshots } from './domain/cache/workspace-snapshot.ts'
import { asOperator, type Services } from './domain/context.ts'
import { createCredentials } from './domain/credential/credential.ts'
import { createUsage } from './domain/credential/usage.ts'
import { readClockOffset } from './domain/database-clock.ts'
import { createHealth } from './domain/health.ts'
import { exchangeRefusals } from './domain/oidc/exchange.ts'
import { createIssuers } from './domain/oidc/issuer.ts'
import { createSlots } from './domain/slot-capacity.ts'
import { createSyncStats } from './domain/sync/stat.ts'
import { inQuietTransaction } from './domain/transaction.ts'
import { finishUpgrade, requireKeptEnd } from './domain/upgrade/upgrade.ts'
import { withTimeout } from './event-loop.ts'
import type { Route } from './http/exchange.ts'
import { type ByteBudgets, createByteBudgets } from './http/limits/byte-budget.ts'
import { createLocalLimiter, createSharedLimiter, type Limiter } from './http/limits/rate-limit.ts'
import { createMetrics, type Metrics } from './http/metrics.ts'
import { createForwardedWatch } from './http/request/forwarded-watch.ts'
import { openStaticFolder } from './http/response/static-file.ts'
import { createServer } from './http/server.ts'
import { installation } from './installation.ts'
import { startJobs } from './jobs/runner.ts'
import { type Log, traceOf } from './log.ts'
import { createLongWork } from './long-work.ts'
import { createMail, type Mail } from './mail.ts'
import { findStore, makeStore, type OpenStore } from './open-store.ts'
import { createOutbound } from './outbound.ts'
import { readOnly } from './store/engine/sql.ts'
import type { OpenMode } from './store/engine/sqlite-connection.ts'
import { type Store, storeOver } from './store/store.ts'
import { openTls, type Tls } from './tls/tls.ts'
import { readVersion } from './version.ts'

export type App = {
  readonly services: Services
  readonly server: Server
  readonly routes: readonly Route[]
  readonly metrics: Metrics
  /** Undefined if the service speaks plain HTTP. */
  readonly tls: Tls | undefined
  readonly budgets: ByteBudgets
  /** False in an installation without built pages, which serves the API alone. */
  readonly hasDashboard: boolean
  /** Serves on for so long, but tells load balancers (`/readyz`) and clients (`Connection: close`) to go elsewhere. */
  drain(ms: number): Promise<void>
  /**
   * Stops accepting connections, serves open ones for `farewellMs` (each response closes its connection), then answers
   * 503, lets requests in flight finish, and closes the store.
   */
  stop(farewellMs?: number): Promise<void>
}

export async function createApp(
  given: Config,
  log: Log,
  now: () => number = Date.now,
  replacements: Partial<Replacements> = {},
): Promise<App> {
  // Before the store: a wrong certificate must not leave a new store behind.
  const tls = given.tls && (await openTls(given.tls, log, now, replacements.handshakeTimeoutMs))
  const services = await createServices(given, log, now, replacements)
  const { config, engine } = services
  const follower = createChangeFollower(services)
  await follower.start()
  await keepSetupCode(services)
  const limiters = await createLimiters(config, log)
  const forwarded = createForwardedWatch(log)
  const metrics = await createMetrics(config, figuresOf(services), forwarded, tls)
  let isDraining = false
  let isParting = false
  let isStopping = false
  const health = createHealth(services)
  const budgets = replacements.budgets ?? createByteBudgets()
  const dashboard = openStaticFolder(replacements.dashboardFolder ?? installation.dashboardFolder)
  const parts = {
    services,
    tls,
    forwarded,
    follower,
    ...limiters,
    budgets,
    metrics,
    health,
    dashboard,
    isDraining: () => isDraining,
    isParting: () => isParting,
    isStopping: () => isStopping,
  }
  const { server, acceptGate, routes } = createServer(parts)
  const jobs = startJobs(services)
  return {
    services,
    server,
    routes,
    metrics,
    tls,
    budgets,
    hasDashboard: dashboard.has('index.html'),
    async drain(ms) {
      if (ms === 0) return
      isDraining = true
      isParting = true
      await sleep(Math.max(0, ms - settleMs), undefined, { ref: false })
      isParting = false
      await sleep(settleMs, undefined, { ref: false })
    },
    async stop(farewellMs = 0) {
      acceptGate.release()
      isDraining = true
      isParting = true
      await closeServer(server, tls, farewellMs, () => {
        isStopping = true
      })
      tls?.stop()
      follower.stop()
      health.stop()
      await jobs.stop()
      await services.mail?.close()
      await limiters.close()
      await engine.close()
    },
  }
}

async function keepSetupCode({ store, setupCode, setupCodeFile }: Services): Promise<void> {
  const needsSetup = (await store.accounts.count()) === 0
  if (needsSetup && !setupCode.isChosen) setupCodeFile.write(setupCode.value)
  else setupCodeFile.remove()
}

/**
 * At the end of a drain connections are kept open again: the system resets those that it has accepted and the process
 * has not, when the process stops to listen.
 */
const settleMs = 500
const sweepEveryMs = 20
/** Grace period for requests in flight, and for connections that were opened but have sent nothing. */
const closeTimeoutMs = 5_000

/**
 * Stops accepting connections and answers the requests of open ones. Idle connections are closed, because the server
 * would wait for them.
 */
async function closeServer(
  http: Server,
  tls: Tls | undefined,
  farewellMs: number,
  onFarewellEnd: () => void,
): Promise<void> {
  const farewellEnds = performance.now() + farewellMs
  if (farewellMs === 0) onFarewellEnd()
  const sweep = setInterval(() => {
    if (performance.now() < farewellEnds) return
    onFarewellEnd()
    http.closeIdleConnections()
  }, sweepEveryMs)
  const timer = setTimeout(() => {
    tls?.hangUp()
    http.closeAllConnections()
  }, farewellMs + closeTimeoutMs)
  // Calls `close` of the plain TCP server: the HTTP server's own `close` also ends connections that only seem idle,
  // because their next request is still on its way.
  if (http.listening) await new Promise<void>((resolve) => void NetServer.prototype.close.call(http, () => resolve()))
  clearInterval(sweep)
  clearTimeout(timer)
  onFarewellEnd()
  http.close()
}

/**
 * Dependencies that tests replace: outbound requests, sleeping, the pace of long work, memory budgets and time-outs for slow peers, and the
 * built pages; and what only a process knows that was started with these settings.
 */
export type Replacements = Pick<Services, 'outbound' | 'sleep' | 'program' | 'longWork'> & {
  readonly budgets: ByteBudgets
  readonly dashboardFolder: string
  readonly handshakeTimeoutMs: number
  /** The store, if it is open already. */
  readonly opened: OpenStore
}

/** Maximum wait for the store: metrics matter most during an outage, and must not hang with it. */
const lagWithinMs = 1_000

function figuresOf(services: Services) {
  const clockOffset = () =>
    withTimeout(lagWithinMs, readClockOffset(services.engine, services.now)).catch(() => undefined)
  return { syncs: () => syncFigures(services), backups: () => backupFigures(services), clockOffset }
}

async function backupFigures(services: Services) {
  const state = await withTimeout(lagWithinMs, readBackupState(services)).catch(() => undefined)
  if (state === undefined) return undefined
  const ageSeconds = state.newest && Math.max(0, services.now() - state.newest.madeAt) / 1_000
  return { ageSeconds, isLastOk: state.failures === 0 }
}

async function syncFigures({ syncStats, store, now }: Services) {
  const lag = store.syncs
    .oldestChange()
    .then((oldest) => (oldest === undefined ? 0 : Math.max(0, now() - oldest) / 1_000))
  const lagSeconds = await withTimeout(lagWithinMs, lag).catch(() => undefined)
  return { ...syncStats, lagSeconds }
}

/** Everything below HTTP, for the service. Creates or migrates the store if needed. */
export async function createServices(
  given: Config,
  log: Log,
  now: () => number = Date.now,
  replacements: Partial<Replacements> = {},
): Promise<Services> {
  const opened = replacements.opened ?? (await makeStore(given, log, now))
  const services = await assemble(given, opened, log, now, replacements)
  await requireKeptEnd(services)
  // One file has one node: no node of an earlier version can be left.
  if (services.engine.kind === 'sqlite') await finishUpgrade(asOperator(services))
  return services
}

/** Everything below HTTP, for operator commands. Uses the existing store and never creates or migrates one. */
export async function openServices(config: Config, log: Log, access: OpenMode): Promise<Services> {
  return assemble(config, await findStore(config, access), log, Date.now, {})
}

/** Everything below HTTP over a store that was just restored. */
export function restoredServices(config: Config, store: OpenStore, log: Log): Promise<Services> {
  return assemble(config, store, log, Date.now, {})
}

async function assemble(
  config: Config,
  { engine, keys }: OpenStore,
  log: Log,
  now: () => number,
  replacements: Partial<Replacements>,
): Promise<Services> {
  const store = storeOver(readOnly(engine), keys)
  const snapshots = createWorkspaceSnapshots(store, log)
  const usage = createUsage()
  const later = (work: (store: Store) => Promise<void> | void) => {
    inQuietTransaction({ engine, keys }, 'later', work).catch((error) => log.warn('put off', traceOf(error)))
  }
  const credentials = createCredentials({ store, keys, snapshots, usage, issuer: config.publicUrl, later, now })
  const environmentVersions = createEnvironmentVersions()
  const responseCache = createResponseCache(environmentVersions)
  const counts = createCounts(store)
  const chainMemory = createChainMemory()
  const outbound = replacements.outbound ?? createOutbound({ allow: config.outboundAllow })
  const issuers = createIssuers(outbound, now)
  const refusals = createRecordLimit(now, exchangeRefusals)
  const strangers = createStrangerRecords(now)
  const memories = {
    pendingChanges: createPendingChanges(),
    snapshots,
    credentials,
    usage,
    environmentVersions,
    responseCache,
    counts,
    chainMemory,
    issuers,
    refusals,
    strangers,
  }
  const outside = {
    outbound,
    sleep: replacements.sleep ?? ((ms, signal) => sleep(ms, undefined, signal && { signal })),
    mail: openMail(config, log),
    syncStats: createSyncStats(),
    longWork: replacements.longWork ?? createLongWork(),
  }
  const { program } = replacements
  const own = {
    version: readVersion(),
    program,
    setupCode: createSetupCode(config.setupCode, keys),
    setupCodeFile: createSetupCodeFile(config.dataDir, log),
    startedAt: now(),
    slots: createSlots(),
    lastBackup: { startedAt: undefined },
  }
  return { config, engine, store, keys, ...memories, ...outside, ...own, now, log }
}

/** Undefined if no mail server is configured. */
export function openMail({ smtpUrl, mailFrom, publicUrl }: Config, log: Log): Mail | undefined {
  if (smtpUrl === undefined) return undefined
  const { hostname } = new URL(publicUrl)
  return createMail({ smtpUrl, from: mailFrom ?? `coffer@${hostname}`, clientName: hostname, log })
}

type Limiters = {
  limiter: Limiter
  exchangeLimiter: Limiter
  shareLimiter: Limiter
  pageLimiter: Limiter
  fileLimiter: Limiter
  close(): Promise<void>
}

/** A page of the dashboard loads some dozen files once, and all people of an office have one address. */
const filesPerPage = 10

async function createLimiters(config: Config, log: Log): Promise<Limiters> {
  const { rateLimit, exchangeRateLimit, shareRateLimit, redisUrl } = config
  if (redisUrl === undefined) {
    return {
      limiter: createLocalLimiter(rateLimit),
      exchangeLimiter: createLocalLimiter(exchangeRateLimit),
      shareLimiter: createLocalLimiter(shareRateLimit),
      pageLimiter: createLocalLimiter(rateLimit),
      fileLimiter: createLocalLimiter(rateLimit * filesPerPage),
      close: async () => undefined,
    }
  }
  // Loaded on demand: most installations have one node and no Redis.
  const { Redis } = await import('ioredis')
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 0, commandTimeout: 500, connectTimeout: 2_000 })
  redis.on('error', () => undefined)
  return {
    limiter: createSharedLimiter(rateLimit, redis, 'address', log),
    exchangeLimiter: createSharedLimiter(exchangeRateLimit, redis, 'exchange', log),
    shareLimiter: createSharedLimiter(shareRateLimit, redis, 'share', log),
    pageLimiter: createSharedLimiter(rateLimit, redis, 'page', log),
    fileLimiter: createSharedLimiter(rateLimit * filesPerPage, redis, 'file', log),
    close: async () => redis.disconnect(),
  }
}
