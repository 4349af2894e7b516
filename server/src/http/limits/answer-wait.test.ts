/** Responses that wait for budget or for their reader while the permissions of the caller change. */
import type { ServerResponse } from 'node:http'
import type { Role } from '@coffer/contract/field'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { head } from '../../../../test/raw-request.ts'
import { open, parseAnswers, receive } from '../../../../test/raw-socket.ts'
import { until } from '../../../../test/wait.ts'
import { changeMember } from '../../../../test/world.ts'
import { everything } from '../../domain/scope.ts'
import { createByteBudgets } from './byte-budget.ts'

const root = '/v1/workspace/main/project/answers/secret'
let service: TestService
let owner: TestUser
let workspaceId: string
let waiting = 0

beforeAll(async () => {
  const budgets = createByteBudgets({ waitMs: 100_000 })
  const { reserve } = budgets.leaving
  const leaving = {
    ...budgets.leaving,
    reserve: (...parameters: Parameters<typeof reserve>) => {
      waiting++
      return reserve(...parameters)
    },
  }
  service = await startService({}, { budgets: { ...budgets, leaving } })
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
  await createProject(service, owner.session, 'answers')
})
afterAll(() => service.stop())

const addMember = (name: string, role: Role) => addUser(service, `${name}@example.com`, { workspaceId, role })

async function write(names: readonly string[]): Promise<void> {
  const secrets = names.map((key) => ({ key, value: 'value', note: 'n'.repeat(1_000) }))
  const body = { environments: ['development'], secrets }
  expect((await service.call('POST', root, { token: owner.session, body })).status).toBe(201)
}

async function trash(names: readonly string[]): Promise<void> {
  for (const name of names) {
    expect((await service.call('DELETE', `${root}/${name}`, { token: owner.session })).status).toBe(200)
  }
}

test('a response that is rebuilt contains nothing of the first one', async () => {
  const names = Array.from({ length: 80 }, (_, at) => `KEY_${at}`)
  await write([...names, 'LAST'])
  await trash(names)
  const member = await addMember('reader', 'developer')
  const reservation = service.app.budgets.leaving.reserveAnyway(['someone else'], 128 * 1024 * 1024)
  const socket = open(service.url)
  const received = receive(socket)
  socket.write(head(`GET ${root}/trash HTTP/1.1`, `Authorization: Bearer ${member.session}`, 'Connection: close'))
  await until(() => waiting > 0 || undefined, 120_000, 'the response waits for budget')
  await trash(['LAST'])
  await changeMember(service, owner, member.memberId ?? '', { role: 'member', scope: everything })
  reservation.release()
  const [answer] = parseAnswers(await received)
  expect(answer?.status).toBe(200)
  expect(JSON.parse(answer?.body ?? '')).toHaveLength(81)
})

test('an audit stream ends when its reader loses access', async () => {
  const secrets = Array.from({ length: 1_000 }, (_, at) => ({ key: `K${'X'.repeat(200)}${at}`, value: 'value' }))
  const body = { environments: ['production'], secrets }
  expect((await service.call('POST', root, { token: owner.session, body })).status).toBe(201)
  // Each entry has 200 KB of keys: together more than the connection buffers.
  for (let count = 0; count < 80; count++) {
    const { status } = await service.call('GET', `${root}?environmentId=production`, { token: owner.session })
    expect(status).toBe(200)
  }
  const admin = await addMember('auditor', 'admin')
  const arrived = new Promise<ServerResponse>((resolve) =>
    service.app.server.once('request', (_request, response) => resolve(response)),
  )
  const socket = open(service.url).pause()
  const session = `Authorization: Bearer ${admin.session}`
  socket.write(head('GET /v1/workspace/main/audit?format=ndjson HTTP/1.1', session, 'Connection: close'))
  const response = await arrived
  await until(() => response.writableNeedDrain || undefined, 120_000, 'the stream waits for its reader')
  await changeMember(service, owner, admin.memberId ?? '', 'removed')
  const received = receive(socket)
  socket.resume()
  const text = (await received).toString()
  expect(text).toMatch(/^HTTP\/1\.1 200 /)
  // The last chunk of a complete response is empty.
  expect(text.endsWith('\r\n0\r\n\r\n')).toBe(false)
  expect(service.logs.filter((line) => line.includes('a request failed'))).toEqual([])
})
