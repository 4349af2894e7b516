/** `serve`: runs the service until a signal stops it. */
import type { Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type App, createApp } from './app.ts'
import type { Config } from './config.ts'
import { ConfigError } from './config-error.ts'
import { installation } from './installation.ts'
import { listenOn, serveMetrics } from './listen.ts'
import { createLog } from './log.ts'
import { behindStoreMs, explainFileError } from './open-store.ts'
import { waitForShares } from './sealed.ts'
import { plainHttpProblem } from './tls/plain-http.ts'

const stopWithinMs = 10_000
const farewellMs = 1_500

const formerKey =
  'the master key has moved, and this node was started with its former source or shares: change that before "keys move --finish"'

const maxAheadMs = 30_000
const behindClock = 'the clock of this machine is behind the newest entry in the store; set it'

export async function serve(config: Config): Promise<number> {
  const problem = plainHttpProblem(config)
  if (problem !== undefined) throw new ConfigError(problem)
  const log = createLog(config.logLevel)
  const program = [...process.execArgv.filter((option) => !/^--(watch|inspect)/.test(option)), installation.program]
  const isSplit = config.masterKey.kind === 'shares'
  const unsealed = isSplit ? await explainFileError(config, () => waitForShares(config, log, Date.now)) : undefined
  if (isSplit && !unsealed) return 0
  const replacements = { program, ...(unsealed && { opened: unsealed.store }) }
  const app = await explainFileError(config, () => createApp(config, log, Date.now, replacements))
  await warnIfBehind(app)
  const stopMetrics = await explainFileError(config, () => open(app, config, unsealed?.server))

  if (app.services.keys.isHandedOver) log.warn(formerKey)

  exposeCollector()
  // Written now instead of at exit, so that the next start is fast even if this process is killed.
  flushCompileCache()

  // A signal to the process group arrives twice: directly, and passed on by npm. The second one must not interrupt the
  // stop.
  const signal = await new Promise<string>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => resolve(name))
  })
  log.info(`stopping on ${signal}`)
  await app.drain(config.drainSeconds * 1_000)
  setTimeout(() => process.exit(1), stopWithinMs).unref()
  await app.stop(farewellMs)
  await stopMetrics()
  // Only silent connections are left there: every answer of the sealed service ended its own.
  unsealed?.server.closeAllConnections()
  log.info('stopped')
  return 0
}

/** Makes `gc` known, without an option of Node: the first line of the package has no room for one. */
function exposeCollector(): void {
  setFlagsFromString('--expose-gc')
  globalThis.gc = runInNewContext('gc')
}

async function warnIfBehind({ services: { engine, log } }: App): Promise<void> {
  // A store that cannot answer is reported by what needs the answer.
  const aheadMs = await behindStoreMs(engine, Date.now()).catch(() => 0)
  if (aheadMs > maxAheadMs) log.warn(`${behindClock}: ${Math.round(aheadMs / 1_000)} s`)
}

/** Starts listening. On failure everything is stopped again, because open connections would keep the process alive. */
async function open(app: App, config: Config, sealed: Server | undefined): Promise<() => Promise<void>> {
  let stopMetrics = async () => {}
  try {
    stopMetrics = await serveMetrics(app.metrics, config, app.tls)
    if (sealed) await takeOver(app.server, sealed)
    else await listenOn(app.server, config.host, 'COFFER_PORT', config.port)
    const address = app.server.address()
    const port = typeof address === 'object' && address ? address.port : config.port
    await welcome(app, port)
    return stopMetrics
  } catch (error) {
    await stopMetrics()
    await app.stop()
    throw error
  }
}

/** The service listens on the socket of the sealed one: no connection is refused in between. */
function takeOver(server: Server, sealed: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(sealed, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

async function welcome(app: App, port: number): Promise<void> {
  const { config, engine, log, setupCode, store } = app.services
  const where = engine.kind === 'sqlite' ? config.dataDir : 'PostgreSQL'
  // With COFFER_PORT=0 the port is known only after listening.
  const url = config.port === 0 ? config.publicUrl.replace(/:0$/, `:${port}`) : config.publicUrl
  const isNew = (await store.accounts.count()) === 0
  // A browser keeps the part after # to itself, so the code reaches no log of a proxy.
  const fragment = setupCode.isChosen ? '' : `#code=${setupCode.value}`
  const reference = app.hasDashboard ? '' : ` (API reference: ${url}/docs)`
  const lines = [`Coffer is ready${isNew && app.hasDashboard ? '' : ` at ${url}${reference}`}. Data: ${where}.`]
  if (isNew) {
    if (app.hasDashboard) lines.push('Create the first account in the browser:', `  ${url}/setup${fragment}`)
    lines.push(app.hasDashboard ? 'or in another terminal:' : 'Create the first account in another terminal:')
    lines.push(`  ${installation.client} login ${url}`)
    // An operator who chose the code knows it, and others may read the log.
    lines.push(`Setup code: ${setupCode.isChosen ? 'the one in COFFER_SETUP_CODE' : setupCode.value}`)
  }
  const isHidden = config.logLevel !== 'info' && config.logLevel !== 'debug'
  // Print a generated code even if the log level hides it: without the code nobody could create the first account.
  if (process.stdout.isTTY || (isHidden && isNew && !setupCode.isChosen)) process.stdout.write(`${lines.join('\n')}\n`)
  else for (const line of lines) log.info(line)
  log.info('listening', { host: config.host, port, engine: engine.kind, ms: Math.round(performance.now()) })
}
