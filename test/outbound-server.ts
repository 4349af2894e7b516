/** Local servers, and requests to them through the outbound client. */
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { createOutbound, OutboundError, type OutboundRequest, type Resolve } from '../server/src/outbound.ts'
import { parseAllowList } from '../server/src/outbound-allow.ts'
import { testCertificate, testPrivateKey } from './outbound-certificate.ts'

/** Closes what a test has opened. */
export const stops: (() => void)[] = []
export function stopAll(): void {
  for (const stop of stops.splice(0)) stop()
}

type Listener = { port: number; connections: () => number }

export async function listen(server: Server, host: string): Promise<Listener> {
  let connections = 0
  server.on('connection', (socket) => {
    connections += 1
    stops.push(() => socket.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(0, host, resolve)
  })
  stops.push(() => server.close())
  // A TCP listener's address is never a pipe's name.
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}

/** Counts connections over IPv4 or IPv6, on any local address. */
export const listenCanary = () =>
  listen(
    createTcpServer((socket) => socket.destroy()),
    '::',
  )
export const listenHttp = (answer: RequestListener, host = '127.0.0.1') => listen(createHttpServer(answer), host)
export const listenHttps = (answer: RequestListener) =>
  listen(createHttpsServer({ key: testPrivateKey, cert: testCertificate }, answer), '127.0.0.1')

function resolverOf(names: Record<string, string[]>): Resolve {
  return async (hostname) =>
    (names[hostname] ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
}

export type RequestOptions = Omit<OutboundRequest, 'reach'> & Partial<Pick<OutboundRequest, 'reach'>>

/** Requests act for a workspace that may use the allow list, unless they set another reach. */
export function openOutbound(options: Parameters<typeof createOutbound>[0]) {
  const { request } = createOutbound(options)
  return { request: (requestOptions: RequestOptions) => request({ reach: 'allowed', ...requestOptions }) }
}

export function outboundWith(allow: string, names: Record<string, string[]> = {}, ca?: string) {
  return openOutbound({ allow: parseAllowList(allow), resolve: resolverOf(names), ...(ca ? { ca } : {}) })
}

export async function failureOf(promise: Promise<unknown>): Promise<OutboundError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof OutboundError)) throw new Error(`expected an OutboundError, got ${String(error)}`)
  return error
}
