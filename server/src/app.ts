/** The only place where the floors meet: opens the store, unlocks the keys, and puts the service together. */
import type { KeyObject } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Config, isLoopback } from './config.ts'
import { masterWrapKey } from './crypto/keyring.ts'
import { createReadRecorder } from './domain/audit-read.ts'
import { newSetupCode } from './domain/auth.ts'
import { createChangeFollower } from './domain/change-follower.ts'
import type { Services } from './domain/context.ts'
import { createCounts } from './domain/count.ts'
import { createCredentials } from './domain/credential.ts'
import { createEpochs } from './domain/epoch.ts'
import { createHealth } from './domain/health.ts'
import { createIssuers } from './domain/oidc-issuer.ts'
import { createRefusals } from './domain/oidc-refusal.ts'
import { createPictures } from './domain/picture.ts'
import { createSealedAnswers } from './domain/sealed-answer.ts'
import { createSyncStats } from './domain/sync-stat.ts'
import { inQuietTransaction } from './domain/transaction.ts'
import { createUsage } from './domain/usage.ts'
import { codeOf } from './error-code.ts'
import { isFailure } from './failure.ts'
import { createMetrics, type Metrics } from './http/metrics.ts'
import type { Route } from './http/pipeline.ts'
import { createLocalLimiter, createSharedLimiter, type Limiter } from './http/rate-limit.ts'
import { createServer } from './http/server.ts'
import { startJobs } from './jobs/runner.ts'
import { type Log, traceOf } from './log.ts'
import { createMail, type Mail } from './mail.ts'
import { loadMasterKey } from './master-key.ts'
import { createOutbound } from './outbound.ts'
import { wrappedMaster } from './store/instance.ts'
import { hasKeys, type Keys, loadKeys, makeKeys } from './store/key.ts'
import { migrate, requireCurrentSchema } from './store/migrate.ts'
import { postgresRefusal } from './store/postgres-refusal.ts'
import type { Engine } from './store/sql.ts'
import { openSqlite } from './store/sqlite.ts'
import { type Access, fileTrouble, inspectFile } from './store/sqlite-connection.ts'
import { createStore, type Store } from './store/store.ts'
import { within } from './turns.ts'

export class StartError extends Error {}

export type App = {
  readonly services: Services
  readonly server: Server
  readonly routes: readonly Route[]
  readonly metrics: Metrics
  /**
   * Takes no new connections, answers 503 on the ones there are for `farewellMs`, each answer the last of its connection,
   * lets requests in flight finish, then closes the store.
   */
  stop(farewellMs?: number): Promise<void>
}

export async function createApp(
  given: Config,
  log: Log,
  now: () => number = Date.now,
  doors: Partial<Doors> = {},
): Promise<App> {
  const services = await createServices(given, log, now, doors)
  const { config, engine } = services
  const follower = createChangeFollower(services)
  await follower.start()
  const limiters = await createLimiters(config, log)
  const metrics = await createMetrics(config, () => syncFigures(services))
  let isStopping = false
  const health = createHealth(services)
  const parts = { services, follower, ...limiters, metrics, health, isStopping: () => isStopping }
  const { server, door, routes } = createServer(parts)
  const jobs = startJobs(services)
  return {
    services,
    server,
    routes,
    metrics,
    async stop(farewellMs = 0) {
      door.letIn()
      isStopping = true
      await closeServer(server, farewellMs)
      follower.stop()
      health.stop()
      await jobs.stop()
      await services.mail?.close()
      await limiters.close()
      await engine.close()
    },
  }
}

const sweepEveryMs = 20
/** Requests in flight have so long; so do connections that were opened and say nothing. */
const patienceMs = 5_000

/** Nobody new is let in; who has a connection gets an answer. Those that rest are closed, or they would hold it up. */
async function closeServer(http: Server, farewellMs: number): Promise<void> {
  const farewellEnds = performance.now() + farewellMs
  const sweep = setInterval(() => {
    if (performance.now() >= farewellEnds) http.closeIdleConnections()
  }, sweepEveryMs)
  const patience = setTimeout(() => http.closeAllConnections(), farewellMs + patienceMs)
  // Of the plain server: that of HTTP cuts off at once what only seems to rest.
  if (http.listening) await new Promise<void>((resolve) => void NetServer.prototype.close.call(http, () => resolve()))
  clearInterval(sweep)
  clearTimeout(patience)
  http.close()
}

/** The way out of the house, and waiting: what a test of many vendors replaces. */
export type Doors = Pick<Services, 'outbound' | 'sleep'>

/** Metrics are wanted most when something is wrong: they do not wait for the store. */
const lagWithinMs = 1_000

async function syncFigures({ syncStats, store, now }: Services) {
  const lag = store.syncs
    .oldestChange()
    .then((oldest) => (oldest === undefined ? 0 : Math.max(0, now() - oldest) / 1_000))
  const lagSeconds = await within(lagWithinMs, lag).catch(() => undefined)
  return { ...syncStats, lagSeconds }
}

/** Everything below HTTP, for the service: the store is made or brought up to date where it has to be. */
export async function createServices(
  given: Config,
  log: Log,
  now: () => number = Date.now,
  doors: Partial<Doors> = {},
): Promise<Services> {
  return assemble(given, await makeStore(given, now), log, now, doors)
}

/** The same for the operator's commands: on the store that is there, as it is. */
export async function openServices(config: Config, log: Log, access: Access): Promise<Services> {
  return assemble(config, await findStore(config, access), log, Date.now, {})
}

async function assemble(
  given: Config,
  { engine, keys }: OpenStore,
  log: Log,
  now: () => number,
  doors: Partial<Doors>,
): Promise<Services> {
  const store = createStore(engine, keys)
  const config = await withSetupCode(given, () => store.accounts.count())
  const pictures = createPictures(store, log)
  const usage = createUsage()
  const later = (work: (store: Store) => Promise<void>) => {
    inQuietTransaction({ engine, keys }, 'later', work).catch((error) => log.warn('put off', traceOf(error)))
  }
  const credentials = createCredentials({ store, keys, pictures, usage, issuer: config.publicUrl, later, now })
  const epochs = createEpochs()
  const answers = createSealedAnswers(epochs)
  const counts = createCounts(store)
  const reads = createReadRecorder({ engine, keys, log })
  const outbound = doors.outbound ?? createOutbound({ allow: config.outboundAllow })
  const issuers = createIssuers(outbound, now)
  const refusals = createRefusals(now)
  const memories = { pictures, credentials, usage, epochs, answers, counts, reads, issuers, refusals }
  const outside = {
    outbound,
    sleep: doors.sleep ?? ((ms: number) => sleep(ms)),
    mail: openMail(config, log),
    syncStats: createSyncStats(),
  }
  return { config, engine, store, keys, ...memories, ...outside, now, log }
}

function openMail({ smtpUrl, mailFrom, publicUrl }: Config, log: Log): Mail | undefined {
  if (smtpUrl === undefined) return undefined
  const { hostname } = new URL(publicUrl)
  return createMail({ smtpUrl, from: mailFrom ?? `coffer@${hostname}`, clientName: hostname, log })
}

type OpenStore = { readonly engine: Engine; readonly keys: Keys }

/** The store, migrated and durable, with its keys unlocked; where there is none, a new one. */
async function makeStore(config: Config, now: () => number): Promise<OpenStore> {
  return orClosed(await makeEngine(config), async (engine) => {
    await refuseOnError(engine, () => engine.checkDurability())
    await refuseOnError(engine, () => migrate(engine, now()))
    if (config.masterKey.kind === 'file') makeFolder(dirname(config.masterKey.path))
    const master = await findMaster(config, engine, !(await hasKeys(engine)), now)
    await makeKeys(engine, master, now)
    return { engine, keys: await unlockKeys(engine, master, now) }
  })
}

/** The store that is there; whoever mistyped where it is must not find an empty one there from then on. */
async function findStore(config: Config, access: Access): Promise<OpenStore> {
  return orClosed(await findEngine(config, access), async (engine) => {
    await refuseOnError(engine, () => engine.checkDurability())
    if ((await engine.migratedSteps()) === 0) throw noStore(config)
    await requireCurrentSchema(engine)
    if (!(await hasKeys(engine))) throw noStore(config)
    const master = await findMaster(config, engine, false, Date.now)
    return { engine, keys: await unlockKeys(engine, master, Date.now) }
  })
}

async function orClosed<Result>(engine: Engine, work: (engine: Engine) => Promise<Result>): Promise<Result> {
  try {
    return await work(engine)
  } catch (error) {
    await engine.close().catch(() => undefined)
    throw error
  }
}

async function findMaster(config: Config, engine: Engine, mayCreate: boolean, now: () => number): Promise<KeyObject> {
  const master = await loadMasterKey(config.masterKey, {
    wrapped: wrappedMaster(engine, now),
    outbound: createOutbound({ allow: config.outboundAllow }),
    env: process.env,
    mayCreate,
  })
  return masterWrapKey(master)
}

function unlockKeys(engine: Engine, master: KeyObject, now: () => number): Promise<Keys> {
  return loadKeys(engine, master, now).catch((error) => {
    if (!isFailure(error, 'integrity')) throw error
    throw new StartError('The master key does not match this database: start with the key that it was made with.')
  })
}

function noStore({ databaseUrl, dataDir }: Config): StartError {
  return new StartError(
    databaseUrl === undefined
      ? `There is no store in ${dataDir}: check COFFER_DATA_DIR.`
      : 'There is no store in the database of COFFER_DATABASE_URL: check that it is the right one.',
  )
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new StartError(
      `The folder ${path} for the master key cannot be made (${codeOf(error)}): check COFFER_MASTER_KEY_FILE.`,
    )
  }
}

export const databaseFile = 'coffer.db'

async function makeEngine(config: Config): Promise<Engine> {
  if (config.databaseUrl !== undefined) return connect(config.databaseUrl)
  return onFile(config, (path) => {
    mkdirSync(config.dataDir, { recursive: true, mode: 0o700 })
    requireOurs(path)
    const engine = openSqlite(path)
    for (const file of [path, `${path}-wal`, `${path}-shm`]) chmodSync(file, 0o600)
    return engine
  })
}

async function findEngine(config: Config, access: Access): Promise<Engine> {
  if (config.databaseUrl !== undefined) return connect(config.databaseUrl)
  return onFile(config, (path) => {
    if (requireOurs(path) === 'nothing') throw noStore(config)
    return openSqlite(path, access)
  })
}

async function connect(url: string): Promise<Engine> {
  // Loaded only where it is used: its driver takes time and memory.
  const { openPostgres } = await import('./store/postgres.ts')
  return openPostgres(url)
}

function onFile<Result>(config: Config, work: (path: string) => Result): Result {
  try {
    return work(join(config.dataDir, databaseFile))
  } catch (error) {
    if (error instanceof StartError) throw error
    const trouble = fileTrouble(error) ?? `cannot be opened (${codeOf(error)}): check that the folder is writable.`
    throw new StartError(`The database in ${config.dataDir} ${trouble}`)
  }
}

/** Another program's tables must not get ours beside them. */
function requireOurs(path: string): 'nothing' | 'store' {
  const content = inspectFile(path)
  if (content !== 'foreign') return content
  throw new StartError(`The database ${path} belongs to another program: it has tables, and none of them is Coffer's.`)
}

/** What goes wrong with the file of SQLite or its disk, at whatever moment, in one sentence for the operator. */
export async function tellFileTrouble<Result>(config: Config, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const trouble = config.databaseUrl === undefined ? fileTrouble(error) : undefined
    throw trouble === undefined ? error : new StartError(`The database in ${config.dataDir} ${trouble}`)
  }
}

async function refuseOnError(engine: Engine, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isFailure(error) && (engine.kind === 'sqlite' || error.code === 'internal')) throw error
    // What has neither a code nor a cause is a sentence of ours.
    const isOurs = error instanceof Error && !('code' in error) && error.cause === undefined
    const isServers = engine.kind === 'postgres' && !isOurs
    const reason = isServers ? `${postgresRefusal(error)}.` : error instanceof Error ? error.message : 'unknown error'
    throw new StartError(`The database cannot be used: ${reason}`)
  }
}

/** Whoever reaches a service that anybody can reach must prove that they may make its first account. */
async function withSetupCode(config: Config, countAccounts: () => Promise<number>): Promise<Config> {
  if (config.setupCode !== undefined || isLoopback(config.host)) return config
  return (await countAccounts()) === 0 ? { ...config, setupCode: newSetupCode() } : config
}

type Limiters = { limiter: Limiter; exchangeLimiter: Limiter; shareLimiter: Limiter; close(): Promise<void> }

async function createLimiters(config: Config, log: Log): Promise<Limiters> {
  const { rateLimit, exchangeRateLimit, shareRateLimit, redisUrl } = config
  if (redisUrl === undefined) {
    return {
      limiter: createLocalLimiter(rateLimit),
      exchangeLimiter: createLocalLimiter(exchangeRateLimit),
      shareLimiter: createLocalLimiter(shareRateLimit),
      close: async () => undefined,
    }
  }
  // Loaded only where it is used: most installations have one node.
  const { Redis } = await import('ioredis')
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 0, commandTimeout: 500, connectTimeout: 2_000 })
  redis.on('error', () => undefined)
  return {
    limiter: createSharedLimiter(rateLimit, redis, 'address', log),
    exchangeLimiter: createSharedLimiter(exchangeRateLimit, redis, 'exchange', log),
    shareLimiter: createSharedLimiter(shareRateLimit, redis, 'share', log),
    close: async () => redis.disconnect(),
  }
}
