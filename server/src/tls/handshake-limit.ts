/**
 * Bounds connections that have not finished their TLS handshake. Node ends each after `defaultHandshakeTimeoutMs`; without
 * a limit of their number, strangers could hold as many sockets as the process may open. A new connection is always
 * accepted: when all places are taken, it ends the oldest handshake of the network that holds most.
 */
import type { Server, Socket } from 'node:net'
import { clientSite } from '../address-range.ts'
import { setBounded } from '../bounded-map.ts'

export const defaultHandshakeTimeoutMs = 10_000
/** Well above what a busy service has at once: a handshake takes some milliseconds. */
const maxHandshakes = 1_000
/**
 * Strangers beyond this share are ended before any known address. Below it known addresses are ended, so that an
 * attacker who has completed handshakes cannot keep newcomers out either.
 */
const strangersShare = maxHandshakes / 2
const maxKnownAddresses = 10_000

export type HandshakeLimit = {
  /** Disconnects clients in the middle of a handshake. A server that is closed would wait for them. */
  hangUp(): void
}

/** `server` is one of node:https, which emits `connection` before and `secureConnection` after a handshake. */
export function limitHandshakes(server: Server): HandshakeLimit {
  const strangers = createPending()
  const known = createPending()
  const places = new Map<Socket, { readonly peer: string; readonly pending: Pending }>()
  /** One with the same peer may be open still: clients choose their ports, and those that have gone have no address. */
  const latestOf = new Map<string, Socket>()
  /** Addresses that have completed a handshake, the latest last. */
  const proven = new Map<string, true>()

  function end(socket: Socket): void {
    const place = places.get(socket)
    if (!place) return
    places.delete(socket)
    place.pending.delete(socket)
    if (latestOf.get(place.peer) === socket) latestOf.delete(place.peer)
  }

  server.on('connection', (socket: Socket) => {
    const { remoteAddress = '' } = socket
    if (places.size >= maxHandshakes) {
      const oldest = (strangers.size > strangersShare ? strangers : known).findOldestOfMost()
      if (oldest) {
        end(oldest)
        oldest.destroy()
      }
    }
    const pending = proven.has(remoteAddress) ? known : strangers
    const peer = peerOf(socket)
    places.set(socket, { peer, pending })
    latestOf.set(peer, socket)
    pending.add(socket, clientSite(remoteAddress))
    socket.once('close', () => end(socket))
  })
  // The socket of this event is another object for the same connection.
  server.on('secureConnection', (socket: Socket) => {
    const begun = latestOf.get(peerOf(socket))
    if (begun) end(begun)
    setBounded(proven, maxKnownAddresses, socket.remoteAddress ?? '', true)
  })

  return {
    hangUp() {
      for (const socket of places.keys()) socket.destroy()
    },
  }
}

type Pending = {
  readonly size: number
  add(socket: Socket, network: string): void
  delete(socket: Socket): void
  /** The oldest one of the network that holds most; of equal networks, the one that came first. */
  findOldestOfMost(): Socket | undefined
}

/** Handshakes under way, by network, the oldest first. */
function createPending(): Pending {
  const networks = new Map<string, Set<Socket>>()
  const networkOf = new Map<Socket, string>()
  return {
    get size() {
      return networkOf.size
    },
    add(socket, network) {
      networkOf.set(socket, network)
      const held = networks.get(network)
      if (held) held.add(socket)
      else networks.set(network, new Set([socket]))
    },
    delete(socket) {
      const network = networkOf.get(socket) ?? ''
      networkOf.delete(socket)
      const held = networks.get(network)
      held?.delete(socket)
      if (held?.size === 0) networks.delete(network)
    },
    findOldestOfMost() {
      let most = new Set<Socket>()
      for (const held of networks.values()) if (held.size > most.size) most = held
      const [oldest] = most
      return oldest
    },
  }
}

const peerOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
