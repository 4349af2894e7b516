/** Bodies that are sent from a stream or saved into one: bounded memory, and a deadline that progress restarts. */
import type { ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import {
  failureOf,
  listen,
  listenHttp,
  outboundWith,
  type RequestOptions,
  stopAll,
} from '../../test/outbound-server.ts'

afterEach(stopAll)

const send = (request: RequestOptions) => outboundWith('').request({ reach: 'operator', ...request })
const chunk = Buffer.alloc(64 * 1024, 'x')

async function* chunksOf(count: number) {
  for (let index = 0; index < count; index++) yield chunk
}

test('a streamed body arrives whole, with its length in the header', async () => {
  const server = await listenHttp(async (request, response) => {
    let bytes = 0
    for await (const part of request) bytes += part.length
    response.end(JSON.stringify({ bytes, length: request.headers['content-length'] }))
  })
  const body = { bytes: 100 * chunk.length, open: () => chunksOf(100) }
  const { body: answer } = await send({ url: `http://127.0.0.1:${server.port}/`, method: 'PUT', body })
  expect(JSON.parse(answer.toString())).toEqual({ bytes: body.bytes, length: String(body.bytes) })
})

test('a response is saved chunk by chunk, beyond the limit of responses in memory if the caller says so', async () => {
  const server = await listenHttp(async (_, response) => {
    for await (const part of chunksOf(100)) response.write(part)
    response.end()
  })
  let bytes = 0
  const save = async (body: AsyncIterable<Buffer>) => {
    for await (const part of body) bytes += part.length
  }
  const url = `http://127.0.0.1:${server.port}/`
  const { status, body } = await send({ url, maxBytes: 100 * chunk.length, save })
  expect([status, body.length, bytes]).toEqual([200, 0, 100 * chunk.length])
  expect(await failureOf(send({ url, maxBytes: 99 * chunk.length, save }))).toMatchObject({ kind: 'too_large' })
})

test('a refusal is returned in memory, not saved', async () => {
  const server = await listenHttp((_, response) => response.writeHead(404).end('no such key'))
  const save = async () => {
    throw new Error('not called')
  }
  const { status, body } = await send({ url: `http://127.0.0.1:${server.port}/`, save })
  expect([status, body.toString()]).toEqual([404, 'no such key'])
})

test('progress restarts the deadline of a stream, and a stall ends it', async () => {
  const reached = Promise.withResolvers<ServerResponse>()
  const server = await listenHttp((_, response) => reached.resolve(response.writeHead(200)))
  let onChunk: () => void = () => undefined
  const save = async (body: AsyncIterable<Buffer>) => {
    for await (const _ of body) onChunk()
  }
  // The test advances the deadline itself, so that no pause of the machine counts.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let isOver = false
  const failure = failureOf(send({ url: `http://127.0.0.1:${server.port}/`, timeoutMs: 1_000, save })).finally(() => {
    isOver = true
  })
  const response = await reached.promise
  for (let count = 0; count < 5; count++) {
    const arrived = Promise.withResolvers<void>()
    onChunk = arrived.resolve
    response.write('x')
    await arrived.promise
    await vi.advanceTimersByTimeAsync(900)
    expect(isOver).toBe(false)
  }
  await vi.advanceTimersByTimeAsync(200)
  expect(await failure).toMatchObject({ kind: 'timeout' })
})

test.each(['while it is sent', 'while it is received'])('a connection that is cut %s is an error', async (when) => {
  const server = await listen(
    createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => {
        if (when === 'while it is received') socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nfirst')
        setTimeout(() => socket.resetAndDestroy(), 20)
      })
    }),
    '127.0.0.1',
  )
  const save = async (body: AsyncIterable<Buffer>) => {
    for await (const part of body) void part
  }
  const body = { bytes: 10_000 * chunk.length, open: () => chunksOf(10_000) }
  const extra = when === 'while it is received' ? { save } : { body, method: 'PUT' as const }
  expect(await failureOf(send({ url: `http://127.0.0.1:${server.port}/`, ...extra }))).toMatchObject({
    kind: 'connection',
  })
})

test("an error of the caller's own stream is passed on as it is", async () => {
  const server = await listenHttp(async (request, response) => {
    request.on('error', () => undefined)
    response.end('content')
  })
  const full = Object.assign(new Error('full'), { code: 'ENOSPC' })
  const url = `http://127.0.0.1:${server.port}/`
  const save = async () => {
    throw full
  }
  await expect(send({ url, save })).rejects.toBe(full)
  async function* broken() {
    yield chunk
    throw full
  }
  const silent = await listenHttp((request) => request.on('error', () => undefined))
  const body = { bytes: 10 * chunk.length, open: broken }
  await expect(send({ url: `http://127.0.0.1:${silent.port}/`, method: 'PUT', body })).rejects.toBe(full)
})

test('the signal of the caller ends a request', async () => {
  const reached = Promise.withResolvers<void>()
  const server = await listenHttp(() => reached.resolve())
  const stop = new AbortController()
  const answer = failureOf(send({ url: `http://127.0.0.1:${server.port}/`, timeoutMs: 600_000, signal: stop.signal }))
  await reached.promise
  stop.abort()
  expect(await answer).toMatchObject({ kind: 'connection' })
})
