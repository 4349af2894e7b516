/**
 * Transport for the first read of `coffer run`, on a bare socket: node:http would take a third of the time that an empty
 * program takes. Only answers that leave no doubt are read here; for all others node:http sends the request again.
 */
import type { Socket } from 'node:net'
import { nodeTransport } from '@coffer/sdk/node'
import { createResponseReader, type Response } from './response-reader.ts'

type Transport = typeof nodeTransport
type Request = Parameters<Transport>[0]

export const quickTransport: Transport = async (request) =>
  (isPlain(request) ? await read(request) : undefined) ?? nodeTransport(request)

/** Options of Node may name a proxy, which only node:http uses. */
function isPlain({ method, body, headers }: Request): boolean {
  const { NODE_OPTIONS, NODE_USE_ENV_PROXY } = process.env
  const hasOptions = Boolean(NODE_OPTIONS || NODE_USE_ENV_PROXY)
  return method === 'GET' && body === undefined && !hasOptions && Object.values(headers).every(isPrintable)
}

const isPrintable = (text: string) => /^[\x20-\x7e]*$/.test(text)

/** Undefined for an answer that is in doubt. Rejects with the error of the connection. */
function read({ url, headers, signal, maxBytes }: Request): Promise<Response | undefined> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const address = new URL(url)
    const fields = Object.entries({ host: address.host, ...headers, connection: 'close' })
    const lines = [`GET ${address.pathname}${address.search} HTTP/1.1`, ...fields.map((field) => field.join(': '))]
    const reader = createResponseReader(maxBytes)
    const socket = connect(address, {
      onConnect: () => socket.write(`${lines.join('\r\n')}\r\n\r\n`),
      onData(chunk) {
        const response = reader.take(chunk)
        if (response !== 'incomplete') leave(() => resolve(response === 'doubtful' ? undefined : response))
        return response === 'incomplete'
      },
    })
    signal.addEventListener('abort', () => leave(() => reject(signal.reason)))
    socket.on('error', reject)
    // The code is that of node:http.
    socket.on('close', () => reject(Object.assign(new Error('closed'), { code: 'ECONNRESET' })))

    /** The service closes the connection. Closing it here would open process.stderr, which the command shares. */
    function leave(settle: () => void): void {
      settle()
      socket.unref()
    }
  })
}

type Handlers = {
  readonly onConnect: () => void
  /** Returns true to go on reading. */
  readonly onData: (chunk: Buffer) => boolean
}

/** The request is sent after the certificate is accepted. */
function connect({ protocol, hostname, port }: URL, { onConnect, onData }: Handlers): Socket {
  const net = process.getBuiltinModule('node:net')
  const host = hostname.replace(/^\[|\]$/g, '')
  const callback = (size: number, buffer: Uint8Array) => onData(Buffer.from(buffer.subarray(0, size)))
  const onread = { buffer: Buffer.alloc(65_536), callback }
  if (protocol === 'http:') return net.connect({ host, port: Number(port || 80), onread }, onConnect)
  const name = net.isIP(host) === 0 ? { servername: host } : {}
  const options = { host, port: Number(port || 443), ALPNProtocols: ['http/1.1'], onread, ...name }
  return process.getBuiltinModule('node:tls').connect(options, onConnect)
}
