/**
 * Bounds pipelined requests: those that wait behind earlier ones of their connection. Node parses everything that
 * arrived in one chunk, which can be thousands of small requests, before it checks whether earlier responses were read.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { clientNetwork } from '../../address-range.ts'
import { type ByteBudget, queuedBytes, stalledMs } from './byte-budget.ts'
import { createReleaseOnClose } from './release-on-close.ts'

/** Well above what a client sends that waits for responses. */
const maxPipelined = 100

export type PipeliningLimit = {
  /** Returns false if too many requests wait. The request then gets no response, and its connection is closed. */
  admit(request: IncomingMessage, response: ServerResponse): boolean
  /**
   * Records that the client of this connection has shown a valid credential: its later requests no longer count against
   * the share of requests without one.
   */
  vouch(socket: Socket, client: string): void
}

export function createPipeliningLimit(queued: ByteBudget): PipeliningLimit {
  const pipelined = new WeakMap<Socket, number>()
  const vouched = new WeakMap<Socket, string>()
  const releaseOnClose = createReleaseOnClose()

  function reserve(socket: Socket, response: ServerResponse): boolean {
    const client = vouched.get(socket)
    const network = clientNetwork(socket.remoteAddress ?? '')
    const holder = { client: client ?? network, workspace: undefined, hasCredential: client !== undefined }
    try {
      const reservation = queued.take(holder, queuedBytes)
      reservation.begin(() => hangUp(socket))
      releaseOnClose(socket, response, reservation)
      return true
    } catch {
      return false
    }
  }

  return {
    admit({ socket }, response) {
      // The first request of a connection waits behind no other.
      if (response.socket) return true
      if (socket.destroyed) return false
      const before = pipelined.get(socket) ?? 0
      if (before === maxPipelined || !reserve(socket, response)) {
        hangUp(socket)
        return false
      }
      pipelined.set(socket, before + 1)
      response.once('close', () => pipelined.set(socket, (pipelined.get(socket) ?? 0) - 1))
      response.setTimeout(stalledMs)
      return true
    },
    vouch(socket, client) {
      if (vouched.get(socket) !== client) vouched.set(socket, client)
    },
  }
}

/**
 * Node's HTTP parser keeps emitting the requests of a buffered chunk after its socket is destroyed. Only this
 * undocumented field stops it: 64 KiB of requests then block the service for 6 ms instead of 25. `wire-connection.test.ts`
 * fails if Node drops the field.
 */
type Reading = Socket & { readonly parser?: { onIncoming: () => number } | null }

function hangUp(socket: Reading): void {
  if (socket.parser) socket.parser.onIncoming = () => 0
  socket.destroy()
}
