/**
 * Bounds connections that have not finished their TLS handshake, in all and for each client. Node ends each after
 * `defaultHandshakeTimeoutMs`; without a limit of their number, one client could hold as many sockets as the process may open.
 */
import type { Server, Socket } from 'node:net'
import { clientNetwork } from '../address-range.ts'

export const defaultHandshakeTimeoutMs = 10_000
/** Well above what a busy service has at once: a handshake takes some milliseconds. */
const maxHandshakes = 1_000
/** A proxy may open all connections from one address. */
const maxPerClient = 250

export type HandshakeLimit = {
  /** Disconnects clients in the middle of a handshake. A server that is closed would wait for them. */
  hangUp(): void
}

/** `server` is one of node:https, which emits `connection` before and `secureConnection` after a handshake. */
export function limitHandshakes(server: Server): HandshakeLimit {
  const pending = new Map<string, Socket>()
  const perClient = new Map<string, number>()

  function end(peer: string, client: string): void {
    if (!pending.delete(peer)) return
    const left = (perClient.get(client) ?? 0) - 1
    if (left > 0) perClient.set(client, left)
    else perClient.delete(client)
  }

  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket)
    const client = clientOf(socket)
    const count = perClient.get(client) ?? 0
    if (pending.size >= maxHandshakes || count >= maxPerClient) {
      socket.destroy()
      return
    }
    pending.set(peer, socket)
    perClient.set(client, count + 1)
    socket.once('close', () => end(peer, client))
  })
  // The socket of this event is another object for the same connection.
  server.on('secureConnection', (socket: Socket) => end(peerOf(socket), clientOf(socket)))

  return {
    hangUp() {
      for (const socket of pending.values()) socket.destroy()
    },
  }
}

const peerOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
const clientOf = ({ remoteAddress }: Socket) => clientNetwork(remoteAddress ?? '')
