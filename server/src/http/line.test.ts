import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { standInLine } from './line.ts'

/** A connection from that address. */
function connection(remoteAddress: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
}

/** One more request on it; the answer is what ends its waiting. */
function come(socket: Socket, isFirst = false): { response: ServerResponse; isLetIn: boolean } {
  const request = new IncomingMessage(socket)
  const response = new ServerResponse(request)
  if (isFirst) response.assignSocket(socket)
  return { response, isLetIn: standInLine(request, response) }
}

const many = (address: string, count: number) =>
  Array.from({ length: count }, () => {
    const socket = connection(address)
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
  const [one, other] = [many('192.0.2.1', 45), many('192.0.2.2', 45)]
  const letIn = (all: typeof one) => all.filter(({ isLetIn }) => isLetIn)
  expect([letIn(one).length, letIn(other).length]).toEqual([4_096, 4_096])
  const socket = connection('192.0.2.3')
  expect(come(socket, true).isLetIn).toBe(true)
  expect(come(socket).isLetIn).toBe(false)
  for (const { response } of letIn(one)) response.emit('close')
  expect(letIn(many('192.0.2.3', 1))).toHaveLength(100)
})
