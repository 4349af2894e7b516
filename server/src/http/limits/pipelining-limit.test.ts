import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { beforeEach, expect, test } from 'vitest'
import { createByteBudgets } from './byte-budget.ts'
import { createPipeliningLimit } from './pipelining-limit.ts'

/** However slow this machine is, no request counts as stalled, which would give its place to another. */
const create = () => createPipeliningLimit(createByteBudgets({ stalledMs: 3_600_000 }).queued)
let limit = create()
beforeEach(() => {
  limit = create()
})

/** A connection from an address, on which the client, if given, has sent a credential. */
function connection(remoteAddress: string, client?: string): Socket {
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
  if (client !== undefined) limit.vouch(socket, client)
  return socket
}

/** Adds a request to the connection; it waits until its response closes. */
function addRequest(socket: Socket, isFirst = false): { response: ServerResponse; isAdmitted: boolean } {
  const request = new IncomingMessage(socket)
  const response = new ServerResponse(request)
  if (isFirst) response.assignSocket(socket)
  return { response, isAdmitted: limit.admit(request, response) }
}

const many = (address: string, count: number, client?: string) =>
  Array.from({ length: count }, () => {
    const socket = connection(address, client)
    return Array.from({ length: 100 }, () => addRequest(socket))
  }).flat()

test('100 requests may wait behind the first of a connection; one more closes it', () => {
  const socket = connection('192.0.2.1')
  expect(addRequest(socket, true).isAdmitted).toBe(true)
  const waiting = Array.from({ length: 100 }, () => addRequest(socket))
  expect(waiting.every(({ isAdmitted }) => isAdmitted)).toBe(true)
  waiting[0]?.response.emit('close')
  const another = addRequest(socket)
  expect([another.isAdmitted, socket.destroyed]).toEqual([true, false])
  expect([addRequest(socket).isAdmitted, socket.destroyed]).toEqual([false, true])
  for (const { response } of [...waiting.slice(1), another]) response.emit('close')
})

test('4,096 requests may wait per client and 8,192 in total; the first of a connection never waits', () => {
  const [one, other] = [many('192.0.2.1', 45, 'one'), many('192.0.2.2', 45, 'other')]
  const release = (all: typeof one) => all.filter(({ isAdmitted }) => isAdmitted)
  expect([release(one).length, release(other).length]).toEqual([4_096, 4_096])
  const socket = connection('192.0.2.3')
  expect(addRequest(socket, true).isAdmitted).toBe(true)
  expect(addRequest(socket).isAdmitted).toBe(false)
  for (const { response } of release(one)) response.emit('close')
  expect(release(many('192.0.2.3', 1))).toHaveLength(100)
})

test('anonymous clients of many networks leave half of the limit to clients with a credential', () => {
  const strangers = Array.from({ length: 30 }, (_, at) => many(`192.0.2.${at}`, 3)).flat()
  expect(strangers.filter(({ isAdmitted }) => isAdmitted)).toHaveLength(4_096)
  expect(many('192.0.2.1', 10, 'person').every(({ isAdmitted }) => isAdmitted)).toBe(true)
})

test('a closed connection frees the places of all its waiting requests', () => {
  const sockets = Array.from({ length: 41 }, () => connection('192.0.2.1'))
  for (const socket of sockets) for (let count = 0; count < 100; count++) addRequest(socket)
  expect(addRequest(connection('192.0.2.1')).isAdmitted).toBe(false)
  for (const socket of sockets) socket.emit('close')
  expect(many('192.0.2.1', 40).every(({ isAdmitted }) => isAdmitted)).toBe(true)
})
