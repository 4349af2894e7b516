/** The commands of the server's command line. */
import type { Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import { type App, createApp } from './app.ts'
import { type Config, ConfigError, readConfig } from './config.ts'
import { codeOf } from './error-code.ts'
import { Failure } from './failure.ts'
import { createLog, traceOf } from './log.ts'
import { MasterKeyError } from './master-key/error.ts'
import { explainFileError, StartError } from './open-store.ts'
import { resetMfa } from './operator/account.ts'
import { archiveAudit, verifyArchives } from './operator/audit.ts'
import { runDoctor } from './operator/doctor.ts'
import { rotateEnvironment, rotateRoot, rotateWorkspace, showKeys } from './operator/keys.ts'
import { removePolicy } from './operator/policy.ts'
import { settings } from './setting.ts'
import { readVersion } from './version.ts'

const stopWithinMs = 10_000
const farewellMs = 1_500

const help = `Coffer, a self-hosted secrets manager.

Usage: npm start                                  run the service
       npm run coffer-server -- <command>

Commands:
  serve                          run the service (the default)
  keys status                    show the root, workspace and signing keys and what still needs each
  keys rotate-root               create a new root key and re-wrap everything with it; safe to stop and run again
  keys rotate-workspace <ws>     give one workspace (slug or id) a new key; safe to stop and run again
  keys rotate-environment <ws> <project> <environment>
                                 re-encrypt one environment's values with a new key; safe to stop and run again
  account reset-mfa <email>      remove the second factor of a person who has lost it; audited
  policy reset <ws>              remove the policy of a workspace (slug or id) that shuts its owner out; audited
  audit archive --to <folder> [--before <date>] [--workspace <ws>]
                                 write audit entries that are not archived yet to files, and remove archived ones that are
                                 older than the date or COFFER_AUDIT_DAYS; safe to stop and run again
  audit verify-archive <file>…   verify archives offline: every entry, and that each file continues the previous one
  doctor                         check settings, store, keys, clock and disk, and say how to fix problems
  --help, --version

Settings (environment variables, or lines of the file that COFFER_CONFIG names):
${settings.map((setting) => `  ${setting.name.padEnd(28)} ${setting.meaning} [${setting.default}]`).join('\n')}
`

export async function runCommand(args: readonly string[], env: Record<string, string | undefined>): Promise<number> {
  const [command = 'serve', ...rest] = args
  try {
    if (args.includes('--help') || command === 'help') return print(help)
    if (command === '--version') return print(`${readVersion()}\n`)
    const words = [command, ...rest].join(' ')
    if (command === 'serve' && rest.length === 0) return await serve(readConfig(env))
    if (words === 'doctor') return await runDoctor(env, print)
    if (words === 'keys status') return await showKeys(readConfig(env), print)
    if (words === 'keys rotate-root') return await rotateRoot(readConfig(env), print)
    if (command === 'keys' && rest[0] === 'rotate-workspace' && rest[1] && rest.length === 2) {
      return await rotateWorkspace(readConfig(env), rest[1], print)
    }
    if (command === 'keys' && rest[0] === 'rotate-environment' && rest.length === 4) {
      const [, workspace = '', project = '', environment = ''] = rest
      return await rotateEnvironment(readConfig(env), { workspace, project, environment }, print)
    }
    if (command === 'account' && rest[0] === 'reset-mfa' && rest[1] && rest.length === 2) {
      return await resetMfa(readConfig(env), rest[1], print)
    }
    if (command === 'policy' && rest[0] === 'reset' && rest[1] && rest.length === 2) {
      return await removePolicy(readConfig(env), rest[1], print)
    }
    if (command === 'audit' && rest[0] === 'archive') return await archiveAudit(env, rest.slice(1), print)
    if (command === 'audit' && rest[0] === 'verify-archive' && rest.length > 1) {
      return await verifyArchives(rest.slice(1), print)
    }
    process.stderr.write(`"${words}" is not a command. --help lists them.\n`)
    return 2
  } catch (error) {
    process.stderr.write(`${explain(error, command === 'serve')}\n`)
    return 1
  }
}

function print(text: string): number {
  process.stdout.write(text)
  return 0
}

/**
 * Expected errors show their message. Any other error shows only where it occurred, because its message might hold a
 * secret.
 */
function explain(error: unknown, isStart: boolean): string {
  const isExpected = [ConfigError, StartError, MasterKeyError, Failure].some((kind) => error instanceof kind)
  if (isExpected && error instanceof Error) return isStart ? `Coffer cannot start. ${error.message}` : error.message
  const { errorName, code, stack } = traceOf(error)
  return `Coffer stopped unexpectedly (${[errorName, code].filter(Boolean).join(' ')}).\n${stack ?? ''}`
}

async function serve(config: Config): Promise<number> {
  const log = createLog(config.logLevel)
  const app = await explainFileError(config, () => createApp(config, log))
  const stopMetrics = await explainFileError(config, () => open(app, config))

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
    lines.push(`  npx coffer login ${url}`)
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
  const server = process.getBuiltinModule('node:http').createServer(async (request, response) => {
    const isAsked = request.method === 'GET' && request.url === '/metrics'
    const text = isAsked ? await app.metrics.render().catch(() => undefined) : ''
    const status = text === undefined ? 503 : isAsked ? 200 : 404
    response.writeHead(status, { 'content-type': app.metrics.contentType }).end(text)
  })
  await listenOn(server, config.host, 'COFFER_METRICS_PORT', config.metricsPort)
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
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
