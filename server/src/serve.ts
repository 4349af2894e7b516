/** `serve`: runs the service until a signal stops it. */
import type { Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import { type App, createApp } from './app.ts'
import type { Config } from './config.ts'
import { ConfigError } from './config-error.ts'
import { codeOf } from './error-code.ts'
import { installation } from './installation.ts'
import { createLog } from './log.ts'
import { explainFileError, StartError } from './open-store.ts'
import { plainHttpProblem } from './tls/plain-http.ts'

const stopWithinMs = 10_000
const farewellMs = 1_500

const formerKey =
  'the master key has moved, and the settings of this node name its former source: change them before "keys move --finish"'

export async function serve(config: Config): Promise<number> {
  const problem = plainHttpProblem(config)
  if (problem !== undefined) throw new ConfigError(problem)
  const log = createLog(config.logLevel)
  const program = [...process.execArgv.filter((option) => !/^--(watch|inspect)/.test(option)), installation.program]
  const app = await explainFileError(config, () => createApp(config, log, Date.now, { program }))
  const stopMetrics = await explainFileError(config, () => open(app, config))

  if (app.services.keys.isHandedOver) log.warn(formerKey)

  // Written now instead of at exit, so that the next start is fast even if this process is killed.
  flushCompileCache()

  // A signal to the process group arrives twice: directly, and passed on by npm. The second one must not interrupt the
  // stop.
  const signal = await new Promise<string>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => resolve(name))
  })
  log.info(`stopping on ${signal}`)
  const deadline = setTimeout(() => process.exit(1), stopWithinMs)
  deadline.unref()
  await app.stop(farewellMs)
  await stopMetrics()
  log.info('stopped')
  return 0
}

/** Starts listening. On failure everything is stopped again, because open connections would keep the process alive. */
async function open(app: App, config: Config): Promise<() => Promise<void>> {
  let stopMetrics = async () => {}
  try {
    stopMetrics = await serveMetrics(app, config)
    await listenOn(app.server, config.host, 'COFFER_PORT', config.port)
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

async function welcome(app: App, port: number): Promise<void> {
  const { config, engine, log, setupCode, store } = app.services
  const where = engine.kind === 'sqlite' ? config.dataDir : 'PostgreSQL'
  // With COFFER_PORT=0 the port is known only after listening.
  const url = config.port === 0 ? config.publicUrl.replace(/:0$/, `:${port}`) : config.publicUrl
  const isNew = (await store.accounts.count()) === 0
  const isAsked = setupCode.isChosen || !setupCode.isLocal
  // A browser keeps the part after # to itself, so the code reaches no log of a proxy.
  const fragment = isAsked && !setupCode.isChosen ? `#code=${setupCode.value}` : ''
  const reference = app.hasDashboard ? '' : ` (API reference: ${url}/docs)`
  const lines = [`Coffer is ready${isNew && app.hasDashboard ? '' : ` at ${url}${reference}`}. Data: ${where}.`]
  if (isNew) {
    if (app.hasDashboard) lines.push('Create the first account in the browser:', `  ${url}/setup${fragment}`)
    lines.push(app.hasDashboard ? 'or in another terminal:' : 'Create the first account in another terminal:')
    lines.push(`  ${installation.client} login ${url}`)
    // An operator who chose the code knows it, and others may read the log.
    if (setupCode.isChosen) lines.push('Setup code: the one in COFFER_SETUP_CODE')
    else if (isAsked) lines.push(`Setup code: ${setupCode.value}`)
    else lines.push(`Setup code, needed only through a proxy: ${setupCode.value}`)
  }
  const isHidden = config.logLevel !== 'info' && config.logLevel !== 'debug'
  // Print a generated code even if the log level hides it: without the code nobody could create the first account.
  if (process.stdout.isTTY || (isHidden && isNew && isAsked && !setupCode.isChosen))
    process.stdout.write(`${lines.join('\n')}\n`)
  else for (const line of lines) log.info(line)
  log.info('listening', { host: config.host, port, engine: engine.kind, ms: Math.round(performance.now()) })
}

async function serveMetrics(app: App, config: Config): Promise<() => Promise<void>> {
  if (config.metricsPort === undefined) return async () => undefined
  const server = (app.tls ?? process.getBuiltinModule('node:http')).createServer({})
  server.on('request', async (request, response) => {
    const isAsked = request.method === 'GET' && request.url === '/metrics'
    const text = isAsked ? await app.metrics.render().catch(() => undefined) : ''
    const status = text === undefined ? 503 : isAsked ? 200 : 404
    response.writeHead(status, { 'content-type': app.metrics.contentType }).end(text)
  })
  await listenOn(server, config.host, 'COFFER_METRICS_PORT', config.metricsPort)
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      app.tls?.hangUp()
      // Also closes idle connections, which `close` would wait for.
      server.closeAllConnections()
    })
}

function listenOn(server: Server, host: string, portSetting: string, port: number): Promise<void> {
  // The name could resolve to IPv4 or IPv6, depending on the machine.
  const address = host === 'localhost' ? '127.0.0.1' : host
  return new Promise((resolve, reject) => {
    const refuse = (error: Error) => reject(new StartError(whyNotOn(host, portSetting, port, codeOf(error))))
    server.once('error', refuse).listen(port, address, () => {
      server.off('error', refuse)
      resolve()
    })
  })
}

function whyNotOn(host: string, portSetting: string, port: number, code: string): string {
  if (code === 'EADDRINUSE') return `Port ${port} is already in use: choose another with ${portSetting}.`
  if (code === 'EACCES') {
    return `Port ${port} needs privileges that this process does not have: choose 1024 or higher with ${portSetting}.`
  }
  if (code === 'EADDRNOTAVAIL') return `COFFER_HOST: ${host} is not an address of this machine.`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `COFFER_HOST: the host name ${host} does not resolve (${code}).`
  return `COFFER_HOST: cannot listen on ${host} (${code}).`
}
