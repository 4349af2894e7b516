/** Which handshakes have a place. What strangers cannot do to a whole service is in http/wire-handshake.test.ts. */
import { createServer, Socket } from 'node:net'
import { expect, test } from 'vitest'
import { limitHandshakes } from './handshake-limit.ts'

/** A socket without a connection has no address, as one that its client has reset before it was accepted. */
function accept(count: number) {
  const server = createServer()
  const limit = limitHandshakes(server)
  const sockets = Array.from({ length: count }, () => new Socket())
  for (const socket of sockets) server.emit('connection', socket)
  return { server, limit, sockets }
}

const closed = (sockets: readonly Socket[]) =>
  Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve).destroy())))

test('connections without an address are bounded like all others', () => {
  const { sockets } = accept(1_100)
  expect(sockets.findIndex(({ destroyed }) => !destroyed)).toBe(100)
})

test('connections without an address leave nothing behind when they end', async () => {
  const { server, limit, sockets } = accept(900)
  await closed(sockets)
  const later = Array.from({ length: 1_001 }, () => new Socket())
  for (const socket of later) server.emit('connection', socket)
  expect(later.filter(({ destroyed }) => destroyed)).toHaveLength(1)
  expect(later[0]?.destroyed).toBe(true)
  limit.hangUp()
  expect(later.every(({ destroyed }) => destroyed)).toBe(true)
})
