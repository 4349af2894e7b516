import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { beforeEach, expect, test } from 'vitest'
import { createByteBudgets } from './byte-budget.ts'
import { createLine } from './pipelining-limit.ts'

let line = createLine(createByteBudgets().queued)
beforeEach(() => {
  line = createLine(createByteBudgets().queued)
})

/** A connection from that address, on which this client has shown a credential. */
function connection(remoteAddress: string, client?: string): Socket {
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
  if (client !== undefined) line.vouch(socket, client)
  return socket
}

/** One more request on it; the answer is what ends its waiting. */
function come(socket: Socket, isFirst = false): { response: ServerResponse; isLetIn: boolean } {
  const request = new IncomingMessage(socket)
  const response = new ServerResponse(request)
  if (isFirst) response.assignSocket(socket)
  return { response, isLetIn: line.stand(request, response) }
}

const many = (address: string, count: number, client?: string) =>
  Array.from({ length: count }, () => {
    const socket = connection(address, client)
    return Array.from({ length: 100 }, () => come(socket))
  }).flat()

test('100 wait behind the first of a connection; one more ends it', () => {
  const socket = connection('192.0.2.1')
  expect(come(socket, true).isLetIn).toBe(true)
  const waiting = Array.from({ length: 100 }, () => come(socket))
  expect(waiting.every(({ isLetIn }) => isLetIn)).toBe(true)
  waiting[0]?.response.emit('close')
  const another = come(socket)
  expect([another.isLetIn, socket.destroyed]).toEqual([true, false])
  expect([come(socket).isLetIn, socket.destroyed]).toEqual([false, true])
  for (const { response } of [...waiting.slice(1), another]) response.emit('close')
})

test('4,096 wait for one client on all of its connections, 8,192 for all; the first of a connection never does', () => {
  const [one, other] = [many('192.0.2.1', 45, 'one'), many('192.0.2.2', 45, 'other')]
  const letIn = (all: typeof one) => all.filter(({ isLetIn }) => isLetIn)
  expect([letIn(one).length, letIn(other).length]).toEqual([4_096, 4_096])
  const socket = connection('192.0.2.3')
  expect(come(socket, true).isLetIn).toBe(true)
  expect(come(socket).isLetIn).toBe(false)
  for (const { response } of letIn(one)) response.emit('close')
  expect(letIn(many('192.0.2.3', 1))).toHaveLength(100)
})

test('strangers from many networks together leave half of it to clients with a credential', () => {
  const strangers = Array.from({ length: 30 }, (_, at) => many(`192.0.2.${at}`, 3)).flat()
  expect(strangers.filter(({ isLetIn }) => isLetIn)).toHaveLength(4_096)
  expect(many('192.0.2.1', 10, 'person').every(({ isLetIn }) => isLetIn)).toBe(true)
})

test('a connection that breaks gives back the room of all that wait on it', () => {
  const sockets = Array.from({ length: 41 }, () => connection('192.0.2.1'))
  for (const socket of sockets) for (let count = 0; count < 100; count++) come(socket)
  expect(come(connection('192.0.2.1')).isLetIn).toBe(false)
  for (const socket of sockets) socket.emit('close')
  expect(many('192.0.2.1', 40).every(({ isLetIn }) => isLetIn)).toBe(true)
})
