/** A client with one keep-alive connection; it knows whether a lost request used a fresh or a reused connection. */
import { Agent, request } from 'node:http'
import { hangMs } from './ask.ts'

export type Outcome =
  | { readonly status: number; readonly text: string }
  /** `isRefused`: nothing listens. `isFirst`: the connection was new, and perhaps never accepted. */
  | { readonly lost: string; readonly isRefused: boolean; readonly isFirst: boolean }

type KeptConnection = { send(method: string, path: string, body?: string): Promise<Outcome>; close(): void }

export function keepConnection(url: string, token: string): KeptConnection {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return {
    close: () => agent.destroy(),
    send: (method, path, body) =>
      new Promise((resolve) => {
        const headers = {
          authorization: `Bearer ${token}`,
          ...(body === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        }
        const sent = request(url + path, { method, agent, headers, timeout: hangMs }, (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () =>
            resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
          )
          response.on('error', fail)
        })
        function fail(error: Error): void {
          const code = 'code' in error ? String(error.code) : error.message
          resolve({ lost: `${method} ${code}`, isRefused: code === 'ECONNREFUSED', isFirst: !sent.reusedSocket })
        }
        sent.on('error', fail)
        sent.on('timeout', () => sent.destroy(new Error('no response')))
        sent.end(body)
      }),
  }
}
