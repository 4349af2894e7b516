/**
 * Requests that wait behind others of their connection. Node reads all that has arrived in one piece, thousands of small
 * requests, before it looks at whether the answers to earlier ones are taken: it would keep them, and everybody else waiting.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { clientNetwork } from '../address-range.ts'
import { queued, queuedBytes, stalledMs } from './byte-budget.ts'

/** More than anybody sends who waits for answers. */
const maxInLine = 100
const inLine = new WeakMap<Socket, number>()

/** False where too many stand so: it is not answered, and its connection ends. */
export function standInLine({ socket }: IncomingMessage, response: ServerResponse): boolean {
  // It is the first.
  if (response.socket) return true
  if (socket.destroyed) return false
  const client = clientNetwork(socket.remoteAddress ?? '')
  const before = inLine.get(socket) ?? 0
  if (before === maxInLine || !takeRoom(client)) {
    hangUp(socket)
    return false
  }
  inLine.set(socket, before + 1)
  response.once('close', () => {
    inLine.set(socket, (inLine.get(socket) ?? 0) - 1)
    queued.giveBack(client, queuedBytes)
  })
  response.setTimeout(stalledMs)
  return true
}

function takeRoom(client: string): boolean {
  try {
    queued.take(client, queuedBytes)
    return true
  } catch {
    return false
  }
}

/** What makes requests of all that has arrived, also while the socket is being closed; Node has no call against it, only this field. */
type Reading = Socket & { readonly parser?: { onIncoming: () => number } | null }

function hangUp(socket: Reading): void {
  if (socket.parser) socket.parser.onIncoming = () => 0
  socket.destroy()
}
