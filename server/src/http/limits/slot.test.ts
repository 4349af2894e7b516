/** Slots for large or costly requests: access is re-checked after waiting for one, and nobody fills the queue for others. */

import type { Role } from '@coffer/contract/field'
import type { Revision } from '@coffer/contract/history'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { until } from '../../../../test/wait.ts'
import { changeMember } from '../../../../test/world.ts'
import { asOperator } from '../../domain/context.ts'
import { everything } from '../../domain/scope.ts'
import { acquireLargeSlot, runInBackground } from '../../domain/slot.ts'
import type { Slot, SlotPool } from '../../slot/pool.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let service: TestService
let owner: TestUser
let workspaceId: string
let place: Place

type Place = { readonly root: string; readonly environments: ReadonlyMap<string, string> }

const names = Array.from({ length: 150 }, (_, index) => `KEY_${index}`)
const large = 'x'.repeat(64 * 1024)

beforeAll(async () => {
  service = await startService({ COFFER_TRUSTED_PROXIES: '127.0.0.1' })
  owner = await registerOwner(service)
  workspaceId = await idOf('main')
  place = await createLarge('main')
})
afterAll(() => service.stop())

async function idOf(workspace: string): Promise<string> {
  const { body } = await service.call<{ id: string }>('GET', `/v1/workspace/${workspace}`, { token: owner.session })
  return body.id
}

/** A project with 9.4 MiB of values in development. */
async function createLarge(workspace: string): Promise<Place> {
  const { slug, environments } = await createProject(service, owner.session, 'large', { workspace })
  const root = `/v1/workspace/${workspace}/project/${slug}`
  for (const keys of [names.slice(0, 75), names.slice(75)]) {
    const secrets = keys.map((key) => ({ key, value: large }))
    const body = { environments: ['development'], secrets, mode: 'upsert' }
    const { status, text } = await service.call('POST', `${root}/secret`, { token: owner.session, body })
    expect(status, text).toBe(201)
  }
  return { root, environments: new Map(environments.map(({ id, name }) => [name, id])) }
}

/** Acquires all slots of a pool; returns the function that releases them. */
async function fill(pool: SlotPool): Promise<() => void> {
  const held: Slot[] = []
  for (let party = 0; ; party++) {
    const slot = pool.tryAcquire([`party ${party}`])
    if (!slot) break
    held.push(slot)
  }
  expect(held.length).toBeGreaterThan(0)
  return () => {
    for (const slot of held) slot.release()
  }
}

type Ask = { readonly method: string; path(): string; body?(): Record<string, unknown> }

const reads: Record<string, Ask> = {
  'a list': { method: 'GET', path: () => '/secret?environmentId=development' },
  'a list of keys': { method: 'GET', path: () => '/secret?environmentId=development&view=keys' },
  'an export': { method: 'GET', path: () => '/secret/export?environmentId=development&format=json' },
  'a diff': { method: 'GET', path: () => '/secret/diff?from=development&to=production&values=true' },
}
const developmentId = () => place.environments.get('development') ?? ''
const writes: Record<string, Ask> = {
  'a large write': {
    method: 'POST',
    path: () => '/secret',
    body: () => ({
      environments: ['development'],
      secrets: names.map((key) => ({ key, value: 'small' })),
      mode: 'upsert',
    }),
  },
  'an import': {
    method: 'POST',
    path: () => '/secret/import',
    body: () => ({
      environmentId: 'development',
      format: 'dotenv',
      content: names.map((key) => `${key}=small`).join('\n'),
      mode: 'upsert',
    }),
  },
  'a batch': {
    method: 'POST',
    path: () => '/secret/batch',
    body: () => ({
      environmentId: 'development',
      operations: names.map((key) => ({ op: 'set', key, value: 'small' })),
    }),
  },
  'a promotion': {
    method: 'POST',
    path: () => `/environment/${place.environments.get('staging')}/promote`,
    body: () => ({ from: 'development' }),
  },
  'a restore': {
    method: 'POST',
    path: () => `/environment/${developmentId()}/revision/1/restore`,
    body: () => ({}),
  },
}
const asks = Object.entries({ ...reads, ...writes })
const poolOf = ({ method }: Ask) =>
  method === 'GET' ? service.app.services.slots.largeRead : service.app.services.slots.largeWrite

/** Sends a request while all slots are taken, and runs `meanwhile` while it waits. */
async function askWaiting(ask: Ask, token: string, meanwhile: () => Promise<void>) {
  const pool = poolOf(ask)
  const release = await fill(pool)
  try {
    const body = ask.body && { body: ask.body() }
    const asking = service.call(ask.method, place.root + ask.path(), { token, ...body })
    await until(() => pool.waiting > 0 || undefined, 120_000, 'the request waits for a slot')
    await meanwhile()
    release()
    return await asking
  } finally {
    release()
  }
}

const revisionsOf = async (environment: string) => {
  const path = `${place.root}/environment/${place.environments.get(environment)}/revision?limit=1`
  const { body } = await service.call<Revision[]>('GET', path, { token: owner.session })
  return body[0]?.revision ?? 0
}
const standing = async () => [await revisionsOf('development'), await revisionsOf('staging')]

let people = 0
const addMember = (role: Role) => addUser(service, `person-${++people}@example.com`, { workspaceId, role })

describe.each(asks)('%s that waited for a slot', (_name, ask) => {
  test('is refused with 401 if its token was revoked meanwhile', async () => {
    const before = await standing()
    const { token, id } = await createToken(service, owner.session)
    const { status } = await askWaiting(ask, token, async () => {
      const path = `/v1/workspace/main/tokens/${id}`
      expect((await service.call('DELETE', path, { token: owner.session })).status).toBe(200)
    })
    expect(status).toBe(401)
    expect(await standing()).toEqual(before)
  })

  test('is refused with 404 if its member was removed meanwhile', async () => {
    const before = await standing()
    const member = await addMember('developer')
    const { status } = await askWaiting(ask, member.session, async () => {
      const path = `/v1/workspace/main/rbac/${member.memberId}`
      expect((await service.call('DELETE', path, { token: owner.session })).status).toBe(200)
    })
    expect(status).toBe(404)
    expect(await standing()).toEqual(before)
  })

  test('succeeds if nothing has changed', async () => {
    const developer = await addMember('developer')
    const dryRun = ask.body && { ...ask, body: () => ({ ...ask.body?.(), dryRun: true }) }
    const { status, text } = await askWaiting(dryRun ?? ask, developer.session, async () => undefined)
    expect(status, text.slice(0, 200)).toBe(200)
  })
})

test.each(Object.entries(writes))(
  '%s that waited for a slot is forbidden if the role was lowered meanwhile',
  async (_name, ask) => {
    const before = await standing()
    const member = await addMember('developer')
    const { status } = await askWaiting(ask, member.session, () =>
      changeMember(service, owner, member.memberId ?? '', { role: 'member', scope: everything }),
    )
    expect(status).toBe(403)
    expect(await standing()).toEqual(before)
  },
)

test('40 large reads of one member leave room for an export in another workspace', async () => {
  const { slots } = service.app.services
  const body = { name: 'Other', slug: 'other' }
  expect((await service.call('POST', '/v1/workspace', { token: owner.session, body })).status).toBe(201)
  const other = await createLarge('other')
  const member = await addMember('member')
  const release = await fill(slots.largeRead)
  const list = `${service.url}${place.root}/secret?environmentId=development`
  let refused = 0
  const greedy = Array.from({ length: 40 }, async () => {
    const { status, body } = await fetch(list, { headers: { authorization: `Bearer ${member.session}` } })
    if (status === 503) refused++
    await body?.cancel()
    return status
  })
  await until(() => refused === 8 || undefined, 120_000, '32 wait and 8 are refused')
  const path = `${other.root}/secret/export?environmentId=development`
  const exporting = service.call('GET', path, { token: owner.session })
  await until(() => refused === 9 || undefined, 120_000, 'the export takes one of their places')
  release()
  expect((await exporting).status).toBe(200)
  expect((await Promise.all(greedy)).filter((status) => status === 200)).toHaveLength(31)
})

test('reads of one person in 32 workspaces leave room for a read of another', async () => {
  const { largeRead: pool } = service.app.services.slots
  const release = await fill(pool)
  let refused = 0
  const greedy = Array.from({ length: 32 }, (_, at) =>
    pool.acquire([`workspace ${at}`, 'greedy']).then(
      (slot) => slot.release(),
      () => refused++,
    ),
  )
  await until(() => pool.waiting === 32 || undefined, 120_000, 'the queue is full')
  const member = await addMember('member')
  const path = `${place.root}/secret/export?environmentId=development`
  const exporting = service.call('GET', path, { token: member.session })
  await until(() => refused === 1 || undefined, 120_000, 'the export takes one of their places')
  release()
  expect((await exporting).status).toBe(200)
  await Promise.all(greedy)
  expect(pool.isIdle).toBe(true)
})

test('background work keeps the slot that it waited for', async () => {
  const { services } = service.app
  const { largeRead: pool } = services.slots
  const release = await fill(pool)
  let runs = 0
  const working = runInBackground(asOperator(services), async (ctx) => {
    if (++runs > 1) expect(ctx.run.slots.has(pool)).toBe(true)
    acquireLargeSlot(ctx)
  })
  await until(() => pool.waiting === 1 || undefined, 120_000, 'the request waits for a slot')
  release()
  await working
  expect(runs).toBe(2)
  expect(pool.isIdle).toBe(true)
})

test('120 logins from 12 addresses leave room for a login from another and for changing a password', async () => {
  const { password: pool } = service.app.services.slots
  const person = await addMember('member')
  const release = await fill(pool)
  let refused = 0
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  const flood = Array.from({ length: 120 }, async (_, index) => {
    const body = { email: `nobody-${index}@example.com`, password }
    const { status } = await service.call('POST', '/v1/auth/login', { body, ...from(`192.0.2.${index % 12}`) })
    if (status === 503) refused++
    return status
  })
  await until(() => refused === 56 || undefined, 120_000, '64 wait and 56 are refused')
  const login = { body: { email: person.email, password }, ...from('192.0.2.99') }
  const signingIn = service.call('POST', '/v1/auth/login', login)
  await until(() => refused === 57 || undefined, 120_000, 'the login takes one of their places')
  const change = { currentPassword: password, newPassword: `${password} again` }
  const changing = service.call('PUT', '/v1/me/password', { token: person.session, body: change })
  await until(() => refused === 58 || undefined, 120_000, 'the password change takes one of their places')
  release()
  const answered: string[] = []
  await Promise.all([
    signingIn.then(({ status }) => answered.push(`login ${status}`)),
    changing.then(({ status }) => answered.push(`change ${status}`)),
  ])
  // The login may succeed or fail: it fails if the password change comes first.
  expect(answered).toContain('change 200')
  expect(answered.some((one) => one === 'login 200' || one === 'login 401')).toBe(true)
  expect((await Promise.all(flood)).filter((status) => status === 401)).toHaveLength(62)
})

test('logins from 64 networks of one IPv6 site leave room for a login from another site', async () => {
  const { password: pool } = service.app.services.slots
  const person = await addMember('member')
  const release = await fill(pool)
  let refused = 0
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  const flood = Array.from({ length: 64 }, async (_, index) => {
    const body = { email: `six-${index}@example.com`, password }
    const { status } = await service.call('POST', '/v1/auth/login', { body, ...from(`2001:db8:1:${index}::1`) })
    if (status === 503) refused++
  })
  await until(() => pool.waiting === 64 || undefined, 120_000, 'the queue is full')
  const login = { body: { email: person.email, password }, ...from('2001:db8:2::1') }
  const signingIn = service.call('POST', '/v1/auth/login', login).then(({ status }) => status)
  await until(() => refused === 1 || undefined, 120_000, 'the login takes one of their places')
  release()
  expect(await signingIn).toBe(200)
  await Promise.all(flood)
})
