import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { beforeEach, expect, test } from 'vitest'
import { createByteBudgets } from './byte-budget.ts'
import { createPipeliningLimit } from './pipelining-limit.ts'

let limit = createPipeliningLimit(createByteBudgets().queued)
beforeEach(() => {
  limit = createPipeliningLimit(createByteBudgets().queued)
})

/** A connection from that address, on which this client has shown a credential. */
function connection(remoteAddress: string, client?: string): Socket {
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
  if (client !== undefined) limit.vouch(socket, client)
  return socket
}

/** One more request on it; the answer is what ends its waiting. */
function come(socket: Socket, isFirst = false): { response: ServerResponse; isAdmitted: boolean } {
  const request = new IncomingMessage(socket)
  const response = new ServerResponse(request)
  if (isFirst) response.assignSocket(socket)
  return { response, isAdmitted: limit.admit(request, response) }
}

const many = (address: string, count: number, client?: string) =>
  Array.from({ length: count }, () => {
    const socket = connection(address, client)
    return Array.from({ length: 100 }, () => come(socket))
  }).flat()

test('100 wait behind the first of a connection; one more ends it', () => {
  const socket = connection('192.0.2.1')
  expect(come(socket, true).isAdmitted).toBe(true)
  const waiting = Array.from({ length: 100 }, () => come(socket))
  expect(waiting.every(({ isAdmitted }) => isAdmitted)).toBe(true)
  waiting[0]?.response.emit('close')
  const another = come(socket)
  expect([another.isAdmitted, socket.destroyed]).toEqual([true, false])
  expect([come(socket).isAdmitted, socket.destroyed]).toEqual([false, true])
  for (const { response } of [...waiting.slice(1), another]) response.emit('close')
})

test('4,096 wait for one client on all of its connections, 8,192 for all; the first of a connection never does', () => {
  const [one, other] = [many('192.0.2.1', 45, 'one'), many('192.0.2.2', 45, 'other')]
  const release = (all: typeof one) => all.filter(({ isAdmitted }) => isAdmitted)
  expect([release(one).length, release(other).length]).toEqual([4_096, 4_096])
  const socket = connection('192.0.2.3')
  expect(come(socket, true).isAdmitted).toBe(true)
  expect(come(socket).isAdmitted).toBe(false)
  for (const { response } of release(one)) response.emit('close')
  expect(release(many('192.0.2.3', 1))).toHaveLength(100)
})

test('strangers from many networks together leave half of it to clients with a credential', () => {
  const strangers = Array.from({ length: 30 }, (_, at) => many(`192.0.2.${at}`, 3)).flat()
  expect(strangers.filter(({ isAdmitted }) => isAdmitted)).toHaveLength(4_096)
  expect(many('192.0.2.1', 10, 'person').every(({ isAdmitted }) => isAdmitted)).toBe(true)
})

test('a connection that breaks gives back the room of all that wait on it', () => {
  const sockets = Array.from({ length: 41 }, () => connection('192.0.2.1'))
  for (const socket of sockets) for (let count = 0; count < 100; count++) come(socket)
  expect(come(connection('192.0.2.1')).isAdmitted).toBe(false)
  for (const socket of sockets) socket.emit('close')
  expect(many('192.0.2.1', 40).every(({ isAdmitted }) => isAdmitted)).toBe(true)
})
