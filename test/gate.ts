/** A proxy in front of a service that can be told to fail, so that a client sees an outage at the same address. */
import { createServer, request as forward, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

type Mode = 'pass' | 'reset' | 'hang' | number

export type Gate = {
  readonly url: string
  mode: Mode
  /** Method, status and `if-none-match` of every request that was passed on. */
  readonly passed: { readonly status: number; readonly ifNoneMatch: string | undefined }[]
  /** Number of requests, passed on or not. */
  requests: number
  /** From now on connections are refused. */
  close(): Promise<void>
}

export async function openGate(target: string): Promise<Gate> {
  const answer = (response: ServerResponse, status: number) =>
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ message: 'From the gate.' }))
  const server = createServer((request, response) => {
    gate.requests++
    const { mode } = gate
    if (mode === 'reset') request.socket.destroy()
    else if (typeof mode === 'number') answer(response, mode)
    else if (mode === 'pass') {
      const { method, headers } = request
      const onward = forward(target + request.url, { method, headers }, (received) => {
        gate.passed.push({ status: received.statusCode ?? 0, ifNoneMatch: headers['if-none-match'] })
        response.writeHead(received.statusCode ?? 502, received.headers)
        received.pipe(response)
      })
      onward.on('error', () => request.socket.destroy())
      request.pipe(onward)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const gate: Gate = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: 'pass',
    passed: [],
    requests: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  onTestFinished(() => gate.close())
  return gate
}
