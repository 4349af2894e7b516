/**
 * Access ends while requests wait: every endpoint of the contract is called while all queues and slots are full, and the
 * caller loses access before the request continues. No request succeeds, and nothing is changed.
 */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Content, describeChanges, readContent, restoreContent } from '../../../../test/content.ts'
import { fillQueues } from '../../../../test/full-queue.ts'
import {
  addUser,
  createToken,
  offline,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { requestsTo, requestTable } from '../../../../test/request-table.ts'
import { until } from '../../../../test/wait.ts'
import { createWorld, type World } from '../../../../test/world.ts'
import { newId } from '../../crypto/id.ts'
import { createBearer, sessionPrefix } from '../../crypto/token.ts'
import type { WriteContext } from '../../domain/context.ts'
import { sessionMaxMs } from '../../domain/session-life.ts'
import { announce } from '../../domain/transaction.ts'
import { storeOver } from '../../store/store.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let service: TestService
let owner: TestUser
let admin: TestUser
let world: World
/** A token that is never revoked. */
let standing: IssuedToken
let content: Content

beforeAll(async () => {
  service = await startService({ COFFER_SYNC: 'off' }, offline)
  owner = await registerOwner(service)
  const { body: main } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const workspaceId = main.id
  const heir = await addUser(service, 'heir@example.com', { workspaceId, role: 'member' })
  admin = await addUser(service, 'admin@example.com', { workspaceId, role: 'admin' })
  world = await createWorld(service, owner, heir.memberId ?? '')
  standing = await createToken(service, owner.session)
  content = await readContent(service.app.services)
})
afterAll(() => service.stop())

type Caller = {
  readonly token: string
  readonly tokenId: string
  /** Ends the access of the caller in a separate transaction. */
  end(ctx: WriteContext): Promise<void>
}

type Loss = {
  readonly name: string
  readonly statuses: readonly number[]
  asks(endpoint: Endpoint): boolean
  makeCaller(): Promise<Caller>
}

async function openSession(userId: string): Promise<{ value: string; id: string }> {
  const { engine, keys, now } = service.app.services
  const [value, id] = [createBearer(sessionPrefix), newId()]
  const at = { createdAt: now(), lastSeenAt: now(), expiresAt: now() + sessionMaxMs }
  await engine.transaction('test', async ({ db }) =>
    storeOver(db, keys).sessions.insert({ id, userId, type: 'browser', ip: '', userAgent: '', ...at }, value),
  )
  return { value, id }
}

const losses: readonly Loss[] = [
  {
    name: 'a token is revoked',
    statuses: [401],
    asks: () => true,
    async makeCaller() {
      const { token, id } = await createToken(service, owner.session)
      return {
        token,
        tokenId: id,
        async end(ctx) {
          const current = await ctx.store.tokens.find(id, world.workspaceId)
          if (!current) throw new Error('the token is gone')
          await ctx.store.tokens.update({ ...current, revokedAt: ctx.now() }, current)
          announce(ctx, 'workspace', world.workspaceId)
        },
      }
    },
  },
  {
    name: 'a session is ended',
    statuses: [401],
    asks: () => true,
    async makeCaller() {
      const { value, id } = await openSession(owner.id)
      return {
        token: value,
        tokenId: standing.id,
        async end(ctx) {
          await ctx.store.sessions.remove(id, owner.id)
          announce(ctx, 'user', owner.id)
        },
      }
    },
  },
  {
    name: 'a member is removed',
    statuses: [403, 404],
    asks: ({ path }) => path.startsWith('/v1/workspace/:ws'),
    async makeCaller() {
      const { value } = await openSession(admin.id)
      return {
        token: value,
        tokenId: standing.id,
        async end(ctx) {
          await ctx.store.members.remove(admin.memberId ?? '', world.workspaceId)
          announce(ctx, 'workspace', world.workspaceId)
        },
      }
    },
  },
]

/** POST endpoints that never wait: they change nothing, take no contended lock, or have no sync to resume. */
const answeredAtOnce = new Set<EndpointName>([
  'planSync',
  'testIdentity',
  'readDevice',
  'createWorkspace',
  'resumeSync',
])
/** Reads that wait because they are audited. */
const recordedReads: readonly EndpointName[] = ['listSecrets', 'readSecret', 'exportSecrets', 'readVersion']

const waited = new Set<EndpointName>()
const namesOf = (isAsked: (endpoint: Endpoint) => boolean) =>
  (Object.keys(endpoints) as EndpointName[]).filter(
    (name) => endpoints[name].permission !== 'public' && isAsked(endpoints[name]),
  )

describe.each(losses)('requests that wait while $name are refused', (loss) => {
  test.each(namesOf(loss.asks))('%s', async (name) => {
    const caller = await loss.makeCaller()
    const tokens = { own: caller.tokenId, others: caller.tokenId, itself: caller.tokenId }
    const asks = requestsTo(requestTable(world, tokens), name)
    const ask = asks.find(({ status }) => status === undefined) ?? asks[0]
    if (!ask) throw new Error('there is nothing to ask')
    const { services } = service.app
    const before = await readContent(services)
    const queue = await fillQueues(service, world.workspaceId)
    let isAnswered = false
    const body = ask.body && { body: ask.body }
    const asking = service.call(endpoints[name].method, ask.path, { token: caller.token, ...body })
    const answering = asking.finally(() => {
      isAnswered = true
    })
    let isWaiting = false
    try {
      await until(() => isAnswered || queue.hasWaiter() || undefined, 120_000, `${name} waits or is answered`)
      isWaiting = !isAnswered
    } finally {
      await queue.release(isWaiting ? caller.end : async () => undefined)
    }
    const { status, text } = await answering
    const after = await readContent(services)
    if (isWaiting) {
      waited.add(name)
      expect(loss.statuses, `${status}: ${text}`).toContain(status)
      expect(describeChanges(before, after).filter(isUnexpected)).toEqual([])
    }
    content = await restoreContent(services, content, after)
  })
})

test('all writing endpoints and all audited reads have waited', () => {
  const table = requestTable(world, { own: '', others: '' })
  const succeeds = (name: EndpointName) => requestsTo(table, name).some(({ status }) => status === undefined)
  const waiting = namesOf(({ method }) => method !== 'GET').filter(
    (name) => succeeds(name) && !answeredAtOnce.has(name),
  )
  expect([...waiting, ...recordedReads].filter((name) => !waited.has(name))).toEqual([])
})

/** Ignores changes made by the loss of access itself, by the syncs that it triggers, and by counted attempts. */
function isUnexpected(change: string): boolean {
  if (/^(token changed|session removed|member removed|row_set changed|login_attempt )/.test(change)) return false
  const [was = '', is = ''] = change.replaceAll(/ (due_at|change_count|changed_at)=\S+/g, '').split(' → ')
  return was !== `sync changed: ${is}`
}
