/** A person has at most 1,000 tokens in a workspace, listed in pages. */
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { newKey } from '../../../crypto/envelope.ts'
import { newId } from '../../../crypto/id.ts'
import { everything } from '../../../domain/scope.ts'
import { storeOver } from '../../../store/store.ts'

const tokens = '/v1/workspace/main/tokens'
const wish = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }

let service: TestService
let owner: TestUser
let member: TestUser
let workspaceId: string
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
})
afterAll(() => service.stop())

const make = ({ session }: TestUser) => service.call<Token>('POST', tokens, { token: session, body: wish })

/** Inserts tokens directly: as many requests would take too long. */
async function addTokens(createdBy: string, count: number, endedAt: number | null): Promise<string[]> {
  const { engine, keys } = service.app.services
  const ids = Array.from({ length: count }, () => newId())
  await engine.transaction('tokens', async ({ db }) => {
    const { tokens } = storeOver(db, keys)
    for (const id of ids) {
      await tokens.insert({
        id,
        workspaceId,
        createdBy,
        serviceAccountId: null,
        mayAdminister: false,
        name: 'old',
        type: 'static',
        prefix: 'cof_live_abcd',
        hash: newKey(),
        hashRootId: keys.keyring.active.id,
        previousHash: null,
        previousHashRootId: null,
        previousUntil: null,
        generation: 1,
        permission: 'read',
        scope: everything,
        allowedIps: [],
        createdAt: 1,
        expiresAt: endedAt,
        revokedAt: null,
        lastUsedAt: null,
        lastUsedIp: null,
      })
    }
  })
  return ids
}

async function readPages(user: TestUser, limit?: number): Promise<{ ids: string[]; lengths: number[] }> {
  const ids: string[] = []
  const lengths: number[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const query: string = new URLSearchParams({
      ...(limit && { limit: `${limit}` }),
      ...(cursor && { cursor }),
    }).toString()
    const page = await service.call<Token[]>('GET', `${tokens}?${query}`, { token: user.session })
    expect(page.status, page.text).toBe(200)
    ids.push(...page.body.map(({ id }) => id))
    lengths.push(page.body.length)
    cursor = page.headers.get('x-next-cursor')
  }
  return { ids, lengths }
}

test('the list has pages of 50 by default, and every token is on one of them', async () => {
  const made: string[] = []
  for (let count = 0; count < 3; count++) made.unshift((await createToken(service, owner.session)).id)
  made.push(...(await addTokens(owner.id, 118, null)))
  const all = made.toSorted().reverse()
  expect(await readPages(owner)).toEqual({ ids: all, lengths: [50, 50, 21] })
  expect(await readPages(owner, 60)).toEqual({ ids: all, lengths: [60, 60, 1] })
  expect((await readPages(owner, 121)).lengths).toEqual([121])
  for (const query of ['limit=0', 'limit=201', 'cursor=made-up']) {
    expect((await service.call('GET', `${tokens}?${query}`, { token: owner.session })).status, query).toBe(400)
  }
})

test('a person has at most 1,000 tokens in a workspace; expired ones are evicted, active ones are not', async () => {
  const [first, second] = await addTokens(member.id, 2, 1)
  await addTokens(member.id, 998, null)
  const { services } = service.app
  const exists = async (id = '') => (await services.store.tokens.find(id, workspaceId)) !== undefined
  expect((await make(member)).status).toBe(201)
  expect([await exists(first), await exists(second)]).toEqual([false, true])
  const last = await make(member)
  expect([last.status, await exists(second)]).toEqual([201, false])
  const refused = await make(member)
  expect(refused).toMatchObject({
    status: 409,
    body: { message: 'You have 1,000 tokens in this workspace: revoke those that are no longer used.' },
  })
  expect((await make(owner)).status).toBe(201)
  expect((await service.call('DELETE', `${tokens}/${last.body.id}`, { token: member.session })).status).toBe(200)
  const answers = await Promise.all(Array.from({ length: 5 }, () => make(member)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409])
})
