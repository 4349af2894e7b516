/**
 * Holds requests back briefly while new connections arrive. Node accepts one connection per turn of the event loop, and
 * a turn lasts as long as all the requests handled in it: without this gate, new clients would wait for many such turns
 * under load.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { PipeliningLimit } from './pipelining-limit.ts'

/** Maximum time that requests of open connections are held back, however many new connections arrive. */
const longestHoldMs = 5

export type AcceptGate = {
  /** Releases the requests that are held back. */
  release(): void
}

export function createAcceptGate(
  server: Server,
  listener: RequestListener,
  pipeliningLimit: PipeliningLimit,
  maxHoldMs = longestHoldMs,
): AcceptGate {
  let held: [request: IncomingMessage, response: ServerResponse][] = []
  let isHolding = false
  let holdingSince = 0
  let arrived = 0
  let arrivedBefore = 0

  server.on('connection', () => {
    arrived++
    if (isHolding) return
    isHolding = true
    holdingSince = performance.now()
    setImmediate(look)
  })

  server.on('request', (request, response) => {
    if (!pipeliningLimit.admit(request, response)) return
    if (isHolding) held.push([request, response])
    else listener(request, response)
  })

  /** Runs at the end of each turn, and stops holding after a turn without a new connection. */
  function look(): void {
    if (arrived > arrivedBefore && performance.now() - holdingSince < maxHoldMs) {
      arrivedBefore = arrived
      setImmediate(look)
      return
    }
    isHolding = false
    release()
  }

  function release(): void {
    const all = held
    held = []
    for (const [request, response] of all) listener(request, response)
  }

  return { release }
}
