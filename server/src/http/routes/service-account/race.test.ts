/** A transfer beside a revocation, a rotation or a removal: each outcome is one that some order of the two explains. */
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  engine,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { times } from '../../../../../test/tier.ts'
import { countTampered } from '../../../store/integrity.ts'

const main = '/v1/workspace/main'
const rounds = times(4, 12)

let service: TestService
let nodes: TestService[]
let owner: TestUser
let workspaceId: string
let made = 0

beforeAll(async () => {
  service = await startService()
  nodes = engine === 'postgres' ? [service, await openService(service.settings, service.dataDir)] : [service]
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', main, { token: owner.session })).body.id
})
afterAll(async () => {
  for (const node of nodes.slice(1)) await node.stop()
  await service.stop()
})

type Call = readonly [method: string, path: string, body?: unknown]

/** Sends all calls at once, alternating over the nodes; returns the statuses in the order of the calls. */
async function together(...calls: readonly Call[]): Promise<number[]> {
  for (const node of nodes) node.app.services.snapshots.clear()
  const answers = await Promise.all(
    calls.map(([method, path, body], index) =>
      (nodes[index % nodes.length] ?? service).call(method, path, {
        token: owner.session,
        ...(body !== undefined && { body }),
      }),
    ),
  )
  // The other node hears of the changes within a second; clearing the snapshots saves the wait.
  for (const node of nodes) node.app.services.snapshots.clear()
  return answers.map(({ status }) => status)
}

const account = () => createServiceAccount(service, owner.session, { name: `account ${++made}` })
const statusOf = async (token: string) => (await service.call('GET', main, { token })).status

async function prepare() {
  const user = await addUser(service, `person-${++made}@example.com`, { workspaceId, role: 'developer' })
  const issued = await createToken(service, user.session)
  const { id: accountId } = await account()
  const path = `${main}/tokens/${issued.id}`
  const transfer: Call = ['POST', `${path}/transfer`, { serviceAccountId: accountId }]
  return { user, issued, accountId, path, transfer }
}

test('with a revocation: the token is dead at the end', async () => {
  for (let round = 0; round < rounds; round++) {
    const { issued, path, transfer } = await prepare()
    const calls: Call[] = [['DELETE', path], transfer]
    const [revoked, transferred] = await together(...calls)
    expect(revoked).toBe(200)
    expect([200, 409]).toContain(transferred)
    expect(await statusOf(issued.token)).toBe(401)
  }
})

test('with a rotation: the old value is dead, the new one lives, and belongs to the account', async () => {
  for (let round = 0; round < rounds; round++) {
    const { issued, path, transfer, user } = await prepare()
    const [first, second] = nodes
    const rotate = (second ?? first ?? service).call<IssuedToken>('POST', `${path}/rotate`, { token: user.session })
    const [[transferred], rotated] = await Promise.all([together(transfer), rotate])
    for (const node of nodes) node.app.services.snapshots.clear()
    expect(transferred).toBe(200)
    // After the transfer the person does not own the token any more.
    expect([200, 404]).toContain(rotated.status)
    expect(await statusOf(issued.token)).toBe(rotated.status === 200 ? 401 : 200)
    if (rotated.status === 200) expect(await statusOf(rotated.body.token)).toBe(200)
  }
})

test('with the removal of its person: the token ends with them, or goes on with the account', async () => {
  for (let round = 0; round < rounds; round++) {
    const { issued, transfer, user, accountId } = await prepare()
    const [transferred, removed] = await together(transfer, ['DELETE', `${main}/rbac/${user.memberId}`])
    expect(removed).toBe(200)
    expect([200, 404]).toContain(transferred)
    expect(await statusOf(issued.token)).toBe(transferred === 200 ? 200 : 401)
    const stored = await service.app.services.store.tokens.find(issued.id, workspaceId)
    expect(stored?.serviceAccountId).toBe(transferred === 200 ? accountId : undefined)
  }
})

test('with the removal of the account: no token is left behind', async () => {
  for (let round = 0; round < rounds; round++) {
    const { issued, transfer, accountId } = await prepare()
    const [removed, transferred] = await together(['DELETE', `${main}/service-account/${accountId}`], transfer)
    expect(removed).toBe(200)
    expect([200, 404]).toContain(transferred)
    expect(await statusOf(issued.token)).toBe(transferred === 200 ? 401 : 200)
  }
})

test('of two transfers at once both are answered, and one account has the token', async () => {
  for (let round = 0; round < rounds; round++) {
    const { issued, transfer, accountId, path } = await prepare()
    const other = await account()
    const statuses = await together(transfer, ['POST', `${path}/transfer`, { serviceAccountId: other.id }])
    expect(statuses).toEqual([200, 200])
    const stored = await service.app.services.store.tokens.find(issued.id, workspaceId)
    expect([accountId, other.id]).toContain(stored?.serviceAccountId)
    expect(await statusOf(issued.token)).toBe(200)
  }
})

test('a token created while its account is removed does not live on', async () => {
  for (let round = 0; round < rounds; round++) {
    const { id } = await account()
    const body = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }
    const [created, removed] = await together(
      ['POST', `${main}/service-account/${id}/tokens`, body],
      ['DELETE', `${main}/service-account/${id}`],
    )
    expect(removed).toBe(200)
    expect([201, 404]).toContain(created)
    expect(await service.app.services.store.tokens.listOf(id, workspaceId)).toEqual([])
  }
})

test('of many accounts with one name, one is created', async () => {
  const body = { name: `account ${++made}`, grants: [{ role: 'member', scope: { all: true } }] }
  const create: Call = ['POST', `${main}/service-account`, body]
  expect((await together(create, create, create, create)).sort()).toEqual([201, 409, 409, 409])
})

test('grants and name that change at once are both kept, and every row is signed', async () => {
  for (let round = 0; round < rounds; round++) {
    const { id } = await account()
    const path = `${main}/service-account/${id}`
    const { token } = await createServiceToken(service, owner.session, id)
    const name = `account ${++made}`
    await together(['PUT', path, { name }], ['PUT', path, { grants: [{ role: 'member', scope: { all: true } }] }])
    const stored = await service.app.services.store.serviceAccounts.find(id, workspaceId)
    expect(stored).toMatchObject({ name, grants: [{ role: 'member' }] })
    expect(await statusOf(token)).toBe(200)
  }
  expect(await countTampered(service.app.services.engine, service.app.services.keys)).toEqual([])
})
