/**
 * Bounds pipelined requests. Node parses everything that arrived in one chunk, which can be thousands of small requests.
 * A request that arrives before the response to the earlier one is complete is dropped unread, and the connection is
 * closed after that response (RFC 9112, 9.3.2): the client sends what was not answered again, on a new connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Time for the client to read the last response and to notice the end: a reset could destroy what it has not read. */
const lingerMs = 5_000

export type PipeliningLimit = {
  /** Returns false if the request is dropped. */
  admit(request: IncomingMessage, response: ServerResponse): boolean
  /** Drops malformed bytes in the same way. Returns false if they belong to a request without a response. */
  drop(socket: Socket): boolean
}

export function createPipeliningLimit(): PipeliningLimit {
  /** The newest response of each connection that is not idle. Sockets are Node's objects, which have no field for this. */
  const newest = new WeakMap<Socket, ServerResponse>()
  const closing = new WeakSet<Socket>()

  function drop(socket: Socket): boolean {
    if (closing.has(socket)) return true
    const last = newest.get(socket)
    if (!last?.req.complete && !last?.headersSent) return false
    closing.add(socket)
    ignoreRest(socket)
    if (!last.headersSent) last.setHeader('connection', 'close')
    // Node calls it after the last response.
    socket.destroySoon = () => closeGently(socket)
    last.once('finish', () => socket.writable && socket.destroySoon())
    return true
  }

  return {
    admit(request, response) {
      const { socket } = request
      const earlier = newest.get(socket)
      // Complete, and the first of its connection that is still being sent: its client may just be quick.
      const isServed = !earlier || (earlier.writableEnded && earlier.socket !== null)
      if (!isServed) {
        drop(socket)
        return false
      }
      newest.set(socket, response)
      response.once('finish', () => newest.get(socket) === response && newest.delete(socket))
      return true
    },
    drop,
  }
}

function closeGently(socket: Socket): void {
  socket.end()
  setTimeout(() => socket.destroy(), lingerMs).unref()
}

/**
 * Node's HTTP parser goes on to the end of its chunk, and keeps two objects for each request until the socket is closed.
 * Only this undocumented field stops it: without it, 64 KiB of requests on each of 1,000 connections take more than 4 GB.
 * `wire-connection.test.ts` fails if Node drops the field.
 */
type Reading = Socket & { readonly parser?: { onIncoming: () => number } | null }

/** Later chunks do not reach the parser: they are read only because a reset would follow if they were not. */
function ignoreRest(socket: Reading): void {
  if (socket.parser) socket.parser.onIncoming = () => 0
  socket.removeAllListeners('data').on('data', () => undefined)
}
