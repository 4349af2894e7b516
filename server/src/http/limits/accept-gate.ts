/**
 * New connections. In each turn of the event loop only one of them is taken, and a turn lasts as long as all the requests
 * in it: under load whoever comes new would wait for many of those. So while they are coming in, requests are held
 * back for a moment, and turns are short.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Line } from './pipelining-limit.ts'

/** However many are coming in, those who are in have waited for them long enough after this. */
const longestHoldMs = 5

export type Door = {
  /** Whatever is held back goes on now; false where nothing was. */
  letIn(): boolean
}

export function keepDoor(server: Server, listener: RequestListener, line: Line, maxHoldMs = longestHoldMs): Door {
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
    if (!line.stand(request, response)) return
    if (isHolding) held.push([request, response])
    else listener(request, response)
  })

  /** At the end of each turn: one in which nobody came is the last. */
  function look(): void {
    if (arrived > arrivedBefore && performance.now() - holdingSince < maxHoldMs) {
      arrivedBefore = arrived
      setImmediate(look)
      return
    }
    isHolding = false
    letIn()
  }

  function letIn(): boolean {
    const all = held
    held = []
    for (const [request, response] of all) listener(request, response)
    return all.length > 0
  }

  return { letIn }
}
