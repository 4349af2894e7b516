/** Slow readers and slow writers use up only their own share: other clients are served, though not always at once. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { AuditEntry } from '@coffer/contract/audit'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { head, json } from '../../../../test/raw-request.ts'
import { open, receive } from '../../../../test/raw-socket.ts'
import { until } from '../../../../test/wait.ts'
import { maxBodyBytes } from '../request/body.ts'
import { createByteBudgets } from './byte-budget.ts'

const mebibyte = 1024 * 1024
let service: TestService
let owner: TestUser
const idle: Socket[] = []

/** A short stall limit detects stalled clients soon; a long wait keeps a slow machine from rejecting requests. */
const timeouts = { stalledMs: 200, waitMs: 50_000 }

async function start(given: Parameters<typeof createByteBudgets>[0] = timeouts): Promise<void> {
  service = await startService({}, { budgets: createByteBudgets(given) })
  owner = await registerOwner(service)
}

afterEach(async () => {
  for (const socket of idle.splice(0)) socket.destroy()
  await service.stop()
})

const bearer = ({ session }: TestUser) => `Authorization: Bearer ${session}`

/** A person in their own workspace with some 6 MiB of values; returns the path that reads them. */
async function addReader(name: string): Promise<{ person: TestUser; path: string }> {
  const person = await addUser(service, `${name}@example.com`)
  await service.call('POST', '/v1/workspace', { token: person.session, body: { name, slug: name } })
  return { person, path: await fill(person, name) }
}

async function fill(
  { session }: TestUser,
  workspace: string,
  value = 'x'.repeat(60_000),
  count = 100,
): Promise<string> {
  const { slug } = await createProject(service, session, 'large', { workspace })
  const root = `/v1/workspace/${workspace}/project/${slug}`
  const secrets = Array.from({ length: count }, (_, at) => ({ key: `K${at}`, value }))
  const body = { environments: ['development'], secrets }
  expect((await service.call('POST', `${root}/secret`, { token: session, body })).status).toBe(201)
  return `${root}/secret?environmentId=development`
}

async function stall(person: TestUser, path: string): Promise<ServerResponse> {
  const arrived = new Promise<ServerResponse>((resolve) =>
    service.app.server.once('request', (_request, response) => resolve(response)),
  )
  const socket = open(service.url)
  idle.push(socket.on('error', () => undefined).pause())
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${bearer(person)}\r\n\r\n`)
  return arrived
}

const isFullFor = ({ id }: TestUser, bytes: number) =>
  service.app.budgets.arriving.reserve([id], bytes).then(
    (reservation) => void reservation.release(),
    () => true,
  )

describe('slow readers', () => {
  beforeEach(() => start())

  test('five people who read none of their 50 responses do not block other readers', async () => {
    const path = await fill(owner, 'main')
    const whole = await service.call('GET', path, { token: owner.session })
    for (const name of ['slow-one', 'slow-two', 'slow-three', 'slow-four', 'slow-five']) {
      const { person, path } = await addReader(name)
      for (let count = 0; count < 10; count++) {
        const response = await stall(person, path)
        await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
      }
    }
    const again = await service.call('GET', path, { token: owner.session })
    expect(again.status).toBe(200)
    expect(again.text).toBe(whole.text)
  })

  test('many people with one stalled connection each do not block other readers', async () => {
    const path = await fill(owner, 'main')
    const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', {
      token: owner.session,
    })
    for (let count = 0; count < 24; count++) {
      const membership = { workspaceId: workspace.id, role: 'member' } as const
      await stall(await addUser(service, `m${count}@example.com`, membership), path)
    }
    for (let count = 0; count < 5; count++) {
      expect((await service.call('GET', path, { token: owner.session })).status).toBe(200)
    }
  })
})

test('one person who reads none of 20 responses delays no large read of 20 others', async () => {
  // Nothing that stalls is ended: the others have room of their own.
  await start({ stalledMs: 3_600_000, waitMs: 500 })
  const path = await fill(owner, 'main')
  const { person: greedy, path: own } = await addReader('greedy')
  for (let count = 0; count < 20; count++) {
    const response = await stall(greedy, own)
    await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
  }
  const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  for (let count = 0; count < 20; count++) {
    const membership = { workspaceId: workspace.id, role: 'member' } as const
    const { session } = await addUser(service, `m${count}@example.com`, membership)
    expect((await service.call('GET', path, { token: session })).status).toBe(200)
  }
})

describe('slow writers', () => {
  beforeEach(() => start())

  test('two people who never finish large bodies do not block another writer', async () => {
    await createProject(service, owner.session, 'writes')
    const writers = [await addUser(service, 'one@example.com'), await addUser(service, 'two@example.com')]
    const length = maxBodyBytes - 1024
    const answers = writers.flatMap((writer) =>
      Array.from({ length: 4 }, () => {
        const socket = open(service.url)
        const received = receive(socket)
        idle.push(socket)
        const start = head('POST /v1/workspace HTTP/1.1', bearer(writer), json, `Content-Length: ${length}`)
        socket.write(`${start}{"name":"${'x'.repeat(length - 100)}`)
        return received
      }),
    )
    for (const writer of writers) await until(() => isFullFor(writer, 16_384), 120_000, 'the budget is full')
    const secrets = Array.from({ length: 100 }, (_, at) => ({ key: `K${at}`, value: 'x'.repeat(60_000) }))
    const body = { environments: ['development'], secrets }
    const path = '/v1/workspace/main/project/writes/secret'
    expect((await service.call('POST', path, { token: owner.session, body })).status).toBe(201)
    const ended = String(await Promise.race(answers))
    expect(ended).toMatch(/^HTTP\/1\.1 503 [\s\S]*Retry-After: 1[\s\S]*"The service is busy; try again in a moment\."/i)
  })

  test('a chunked body of unknown length is also limited', async () => {
    const [one, two] = [await addUser(service, 'one@example.com'), await addUser(service, 'two@example.com')]
    for (const writer of [one, two]) {
      for (let count = 0; count < 5; count++) {
        const socket = open(service.url)
        idle.push(socket.on('error', () => undefined))
        const start = head('POST /v1/workspace HTTP/1.1', bearer(writer), json, 'Transfer-Encoding: chunked')
        socket.write(`${start}${(7 * mebibyte).toString(16)}\r\n${'x'.repeat(7 * mebibyte)}\r\n`)
      }
    }
    for (const writer of [one, two]) {
      await until(() => isFullFor(writer, 5 * mebibyte), 120_000, 'the budget is nearly full')
    }
    const body = { name: 'x'.repeat(8 * mebibyte - 2_048), slug: 'long' }
    const answer = await service.call('POST', '/v1/workspace', { token: owner.session, body })
    expect(answer).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^name: /) } })
  })
})

describe('a read without budget', () => {
  beforeEach(() => start({ waitMs: 0 }))

  test.each([
    ['the list', '/secret?environmentId=development', 'VIEW'],
    ['one secret', '/secret/K1?environmentId=development', 'VIEW'],
    ['an export', '/secret/export?environmentId=development&format=json', 'VIEW'],
    ['a version', '/secret/K1/version/1?environmentId=development', 'VIEW'],
    ['a comparison', '/secret/diff?from=development&to=staging&values=true', 'COMPARE'],
  ])('is audited as a failure, not as a view: %s', async (_what, rest, first) => {
    // Each character takes six bytes of JSON, so that a single value counts against the budget.
    const path = await fill(owner, 'main', '\u0001'.repeat(20_000), 20)
    const readPath = path.replace(/\/secret\?.*/, rest)
    const read = () => service.call('GET', readPath, { token: owner.session })
    const { leaving } = service.app.budgets
    const hold = (client: string) => leaving.reserveAnyway([client], 64 * mebibyte)
    const others = ['one', 'two'].map(hold)
    const refused = await read()
    expect(refused.status, refused.text).toBe(503)
    for (const reservation of others) reservation.release()
    const seen = await read()
    expect(seen.status, seen.text).toBe(200)
    const { body } = await service.call<AuditEntry[]>('GET', '/v1/workspace/main/audit', { token: owner.session })
    const entriesOf = ({ headers }: { headers: Headers }) =>
      body
        .filter(({ requestId }) => requestId === headers.get('x-request-id'))
        .map(({ action, outcome }) => `${action} ${outcome}`)
    expect(entriesOf(refused)).toEqual([`${first} failure`])
    expect(entriesOf(seen)).toEqual(expect.arrayContaining([`${first} success`, 'VIEW success']))
  })
})
