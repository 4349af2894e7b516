import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { type AcceptGate, createAcceptGate } from './accept-gate.ts'
import { createByteBudgets } from './byte-budget.ts'
import { createPipeliningLimit } from './pipelining-limit.ts'

const clients = 40

let server: Server
afterEach(() => new Promise((resolve) => void server.close(resolve)))

type Opened = { ask(): Promise<string>; come: number[]; paths: string[]; acceptGate: AcceptGate }

/** Listens, and notes how many had come in when each request was let through. */
async function open(maxHoldMs: number): Promise<Opened> {
  server = createServer()
  let arrived = 0
  const come: number[] = []
  const paths: string[] = []
  const acceptGate = createAcceptGate(
    server,
    (request: IncomingMessage, response) => {
      come.push(arrived)
      paths.push(request.url ?? '')
      response.end('answer')
    },
    createPipeliningLimit(createByteBudgets().queued),
    maxHoldMs,
  )
  server.on('connection', () => arrived++)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ask = (): Promise<string> => {
    const socket = connect(port, '127.0.0.1')
    socket.write('GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    return text(socket)
  }
  return { ask, come, paths, acceptGate }
}

const answersIn = (answer: string) => answer.match(/HTTP\/1.1 200 OK/g)?.length ?? 0

test('many who come at once are all let in before any of them is served', async () => {
  const { ask, come } = await open(60_000)
  const answers = await Promise.all(Array.from({ length: clients }, ask))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 2))
  expect(new Set(come)).toEqual(new Set([clients]))
  expect(come).toHaveLength(2 * clients)
})

test('whoever has waited long enough is served, however many are still coming', async () => {
  const { ask, come } = await open(0)
  const answers = await Promise.all(Array.from({ length: clients }, ask))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 2))
  expect(Math.min(...come)).toBeLessThan(clients)
})

test('requests of one connection are let through in their order', async () => {
  const { ask, paths } = await open(60_000)
  expect(answersIn(await ask())).toBe(2)
  expect(answersIn(await ask())).toBe(2)
  expect(paths).toEqual(['/1', '/2', '/1', '/2'])
})

test('what is held back goes on at once where that is asked for', async () => {
  const { ask, come, acceptGate } = await open(60_000)
  expect(acceptGate.release()).toBe(false)
  server.once('request', () => void setImmediate(() => expect(acceptGate.release()).toBe(true)))
  const answers = await Promise.all(Array.from({ length: clients }, ask))
  expect(answers.map(answersIn)).toEqual(answers.map(() => 2))
  expect(Math.min(...come)).toBeLessThan(clients)
})

test('whoever hangs up at the gate does not keep it shut', async () => {
  const { ask, come } = await open(60_000)
  const { port } = server.address() as AddressInfo
  const gone = Array.from({ length: clients }, () => connect(port, '127.0.0.1'))
  for (const socket of gone) {
    socket.on('error', () => undefined)
    socket.write('GET /gone HTTP/1.1\r\nhost: x\r\n\r\n', () => socket.resetAndDestroy())
  }
  expect(answersIn(await ask())).toBe(2)
  expect(come.length).toBeGreaterThanOrEqual(2)
})
