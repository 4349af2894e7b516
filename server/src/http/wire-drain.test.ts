/** A node that was told to stop serves on while load balancers leave it, and then accepts nothing more. */
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../test/harness.ts'

let service: TestService
let session: string

beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
})
afterAll(() => service.stop())

type Answer = { readonly status: number; readonly connection: string | undefined; readonly unprocessed: unknown }

function ask(agent: Agent, method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = { authorization: `Bearer ${session}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const sent = request(`${service.url}${path}`, { agent, method, headers }, (response) => {
      response.resume().once('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          connection: response.headers.connection,
          unprocessed: response.headers['x-coffer-unprocessed'],
        }),
      )
    })
    sent.once('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  })
}

test('readiness ends first, requests are served on open and on new connections, and each response ends its own', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const team = (name: string) => ask(agent, 'POST', '/v1/workspace/main/team', { name })
  expect(await team('Before')).toMatchObject({ status: 201, connection: 'keep-alive' })
  service.app.drain(600_000)
  expect(await team('On the open connection')).toMatchObject({ status: 201, connection: 'close' })
  expect(await team('On a new connection')).toMatchObject({ status: 201, connection: 'close' })
  expect(await ask(agent, 'GET', '/healthz')).toMatchObject({ status: 200, connection: 'close' })
  for (const path of ['/readyz', '/readyz?verbose'])
    expect(await ask(agent, 'GET', path)).toMatchObject({ status: 503, connection: 'close' })
  agent.destroy()
})

test('a request that comes too late is refused with the word that nothing was done', async () => {
  const late = await startService()
  const { hostname, port } = new URL(late.url)
  const socket = connect({ host: hostname, port: Number(port) }).setEncoding('utf8')
  let answer = ''
  socket.on('data', (text) => {
    answer += text
  })
  const closed = new Promise((resolve) => socket.once('close', resolve))
  // Not idle: the stop waits for it.
  socket.write('POST /v1/auth/login HTTP/1.1\r\nhost: x\r\n')
  await late.call('GET', '/healthz')
  const stopping = late.stop()
  socket.write('content-length: 0\r\n\r\n')
  await closed
  expect(answer).toMatch(/^HTTP\/1\.1 503 /)
  expect(answer).toMatch(/\r\nx-coffer-unprocessed: true\r\n/i)
  expect(answer).toMatch(/\r\nconnection: close\r\n/i)
  expect(answer).toMatch(/\r\nretry-after: \d+\r\n/i)
  await stopping
})
