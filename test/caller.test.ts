/** The test client checks every response against the contract. */
import { createServer, type OutgoingHttpHeaders } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Call, caller } from './caller.ts'

let answer: { status: number; headers: OutgoingHttpHeaders; body: string }
let call: Call
const server = createServer((_request, response) => {
  response.writeHead(answer.status, answer.headers).end(answer.body)
})
beforeAll(async () => {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  call = caller(`http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const headers = {
  'content-type': 'application/json',
  'x-request-id': 'request-1',
  'cache-control': 'no-store',
  'ratelimit-limit': '200',
  'ratelimit-remaining': '199',
  'ratelimit-reset': '60',
}
const without = (name: keyof typeof headers) =>
  Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name))
const team = {
  id: '01a1e192-1b0d-7586-8b40-84505c97b219',
  name: 'A',
  projectCount: 0,
  createdAt: '2026-11-15T00:00:00.000Z',
}
const path = '/v1/workspace/main/team'

test('a response that keeps the contract passes, with its body and headers', async () => {
  answer = { status: 200, headers, body: JSON.stringify([team]) }
  const { status, body, headers: received } = await call('GET', path)
  expect({ status, body, limit: received.get('RateLimit-Limit') }).toEqual({ status: 200, body: [team], limit: '200' })
})

const refusal = '{"message":"No."}'
test.each([
  ['no request id', 200, without('x-request-id'), '[]'],
  ['a cacheable response', 200, without('cache-control'), '[]'],
  ['no rate limit headers', 404, without('ratelimit-reset'), refusal],
  ['a body that violates the schema', 200, headers, '[{"id":1}]'],
  ['an undeclared status', 409, headers, refusal],
  ['an error with more fields than message', 404, headers, '{"message":"No.","stack":""}'],
  ['an error without a message', 404, headers, '[]'],
  ['a 401 without WWW-Authenticate', 401, headers, refusal],
  ['a 429 without Retry-After', 429, headers, refusal],
  ['a 503 with Retry-After: 0', 503, { ...headers, 'retry-after': '0' }, refusal],
])('rejects %s', async (_what, status, sent, body) => {
  answer = { status, headers: sent, body }
  await expect(call('GET', path)).rejects.toThrow(`GET ${path} → ${status}: `)
})

test('rejects success on a path that is not in the contract', async () => {
  answer = { status: 200, headers, body: '{}' }
  await expect(call('GET', '/v1/nowhere')).rejects.toThrow('an unexpected status without an endpoint')
})
