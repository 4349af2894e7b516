/** Starts servers, and says in one sentence why one cannot listen. */
import type { Server } from 'node:http'
import type { Config } from './config.ts'
import { codeOf } from './error-code.ts'
import { StartError } from './start-error.ts'
import type { Tls } from './tls/tls.ts'

type Rendered = { render(): Promise<string>; readonly contentType: string }

/** On a port of their own, without a token. Returns a function that stops the server. */
export async function serveMetrics(
  metrics: Rendered,
  config: Config,
  tls: Tls | undefined,
): Promise<() => Promise<void>> {
  if (config.metricsPort === undefined) return async () => undefined
  const server = (tls ?? process.getBuiltinModule('node:http')).createServer({})
  server.on('request', async (request, response) => {
    const isAsked = request.method === 'GET' && request.url === '/metrics'
    const text = isAsked ? await metrics.render().catch(() => undefined) : ''
    const status = text === undefined ? 503 : isAsked ? 200 : 404
    response.writeHead(status, { 'content-type': metrics.contentType }).end(text)
  })
  await listenOn(server, config.host, 'COFFER_METRICS_PORT', config.metricsPort)
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      tls?.hangUp()
      // Also closes idle connections, which `close` would wait for.
      server.closeAllConnections()
    })
}

export function listenOn(server: Server, host: string, portSetting: string, port: number): Promise<void> {
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
