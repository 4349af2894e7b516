import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { type AcceptGate, createAcceptGate } from './accept-gate.ts'
import { createPipeliningLimit } from './pipelining-limit.ts'

const clients = 40

let server: Server
afterEach(() => new Promise((resolve) => void server.close(resolve)))

type Opened = { ask(bytes?: string): Promise<string>; arrivals: number[]; paths: string[]; acceptGate: AcceptGate }

/** Starts a server, and records for each request how many connections had arrived when it was released. */
async function open(maxHoldMs: number): Promise<Opened> {
  server = createServer()
  let arrived = 0
  const arrivals: number[] = []
  const paths: string[] = []
  const acceptGate = createAcceptGate(
    server,
    (request: IncomingMessage, response) => {
      arrivals.push(arrived)
      paths.push(request.url ?? '')
      response.end('answer')
    },
    createPipeliningLimit(),
    maxHoldMs,
  )
  server.on('connection', () => arrived++)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ask = (bytes = 'GET /1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'): Promise<string> => {
    const socket = connect(port, '127.0.0.1')
    socket.write(bytes)
    return text(socket)
  }
  return { ask, arrivals, paths, acceptGate }
}

const answersIn = (answer: string) => answer.match(/HTTP\/1.1 200 OK/g)?.length ?? 0

test('simultaneous connections are all accepted before any request is served', async () => {
  const { ask, arrivals } = await open(60_000)
  const answers = await Promise.all(Array.from({ length: clients }, () => ask()))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 1))
  expect(new Set(arrivals)).toEqual(new Set([clients]))
  expect(arrivals).toHaveLength(clients)
})

test('a request that has waited the maximum is served while more connections arrive', async () => {
  const { ask, arrivals } = await open(0)
  const answers = await Promise.all(Array.from({ length: clients }, () => ask()))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 1))
  expect(Math.min(...arrivals)).toBeLessThan(clients)
})

test('of pipelined requests that are held, the first is served, and then the connection is closed', async () => {
  const { ask, paths } = await open(60_000)
  const answer = await ask('GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n')
  expect(answersIn(answer)).toBe(1)
  expect(answer).toMatch(/\r\nconnection: close\r\n/i)
  expect(paths).toEqual(['/1'])
})

test('release() serves held requests at once', async () => {
  const { ask, arrivals, acceptGate } = await open(60_000)
  server.once('request', () => void setImmediate(() => acceptGate.release()))
  const answers = await Promise.all(Array.from({ length: clients }, () => ask()))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 1))
  expect(Math.min(...arrivals)).toBeLessThan(clients)
})

test('a connection that closes while held does not block the gate', async () => {
  const { ask, arrivals } = await open(60_000)
  const { port } = server.address() as AddressInfo
  const gone = Array.from({ length: clients }, () => connect(port, '127.0.0.1'))
  for (const socket of gone) {
    socket.on('error', () => undefined)
    socket.write('GET /gone HTTP/1.1\r\nhost: x\r\n\r\n', () => socket.resetAndDestroy())
  }
  expect(answersIn(await ask())).toBe(1)
  expect(arrivals.length).toBeGreaterThanOrEqual(1)
})
