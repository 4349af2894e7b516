/** Every endpoint of a workspace is closed to people and machines that do not meet its policy. */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import type { Member } from '@coffer/contract/member'
import type { PolicyChange } from '@coffer/contract/policy'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Ask, absentId } from '../../../../../test/ask.ts'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import type { TestService } from '../../../../../test/harness.ts'
import {
  from,
  inside,
  machineWays,
  outside,
  type PolicyWorld,
  startPolicyWorld,
  type Way,
} from '../../../../../test/policy-world.ts'
import { requestsTo, requestTable } from '../../../../../test/request-table.ts'
import { until } from '../../../../../test/wait.ts'
import { createWorld } from '../../../../../test/world.ts'

type Request = { readonly title: string; readonly endpoint: Endpoint; readonly ask: Ask }

let world: PolicyWorld
let service: TestService

beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
})
afterAll(() => world.stop())

/** A workspace with every kind of object, every credential of its owner, and every request about it. */
async function newStage() {
  const workspace = await world.newWorkspace()
  const { owner, slug } = workspace
  const heir = await workspace.join()
  const objects = await createWorld(service, owner, heir.memberId ?? '', slug)
  const isSent = async () => {
    const { body } = await service.call<Member[]>('GET', `${workspace.root}/rbac`, { token: owner.session })
    return body.every(({ mail }) => mail !== 'sending') || undefined
  }
  // Its delivery status is saved later, which is not an effect of the requests below.
  await until(isSent, 120_000, 'the mail of the invite is sent')
  const ways = await workspace.ways(owner)
  const own = await workspace.token(owner.session)
  const others = await workspace.token(heir.session)
  return { workspace, ways, requests: requestsIn(requestTable(objects, { own: own.id, others: others.id })) }
}

const endpointNames = Object.keys(endpoints).filter((name): name is EndpointName => name in endpoints)

/** The wizard of syncs names no workspace in its paths, only a project or a sync. */
const isInside = ({ path }: Endpoint) => path.includes('/:ws') || path.startsWith('/v1/sync/:slug')

function requestsIn(table: ReturnType<typeof requestTable>): Request[] {
  return endpointNames.flatMap((name) => {
    const endpoint: Endpoint = endpoints[name]
    if (!isInside(endpoint)) return []
    const isFindable = ({ path, body }: Ask) =>
      path.includes('/workspace/') || !JSON.stringify([path, body]).includes(absentId)
    const asks = requestsTo(table, name).filter((ask) => !ask.isMalformed && isFindable(ask))
    return asks.map((ask) => ({ title: `${name}, ${ask.what}`, endpoint, ask }))
  })
}

/** Sends every request with one credential, and returns those that were not refused with this sentence. */
async function notRefused(
  requests: readonly Request[],
  token: string,
  ip: string,
  sentence: RegExp,
): Promise<string[]> {
  const wrong: string[] = []
  for (const { title, endpoint, ask } of requests) {
    const { status, text } = await service.call(endpoint.method, ask.path, {
      token,
      headers: from(ip),
      ...(ask.body && { body: ask.body }),
    })
    if (status !== 403 || !sentence.test(text)) wrong.push(`${title}: ${status} ${text.slice(0, 80)}`)
  }
  return wrong
}

test.each<[rule: string, policy: Partial<PolicyChange>, ip: string, ways: readonly Way[], sentence: RegExp]>([
  [
    'requireMfa',
    { requireMfa: true },
    inside,
    ['browser session', 'JWT of a token'],
    /^\{"message":"This workspace requires a second factor/,
  ],
  [
    'requireVerifiedEmail',
    { requireVerifiedEmail: true },
    inside,
    ['browser session', 'static token'],
    /^\{"message":"This workspace requires a confirmed email address/,
  ],
  [
    'allowedIps',
    { allowedIps: [inside] },
    outside,
    ['CLI session', 'static token', ...machineWays],
    /^\{"message":"This workspace accepts no requests from the address 203\.0\.113\.9/,
  ],
])('%s closes every endpoint, and a refused request changes nothing', async (_rule, policy, ip, closed, sentence) => {
  const { workspace, ways, requests } = await newStage()
  expect(new Set(requests.map(({ endpoint }) => endpoint)).size).toBeGreaterThan(60)
  await workspace.set(policy, undefined, inside)
  const before = await readContent(service.app.services)
  for (const way of closed) {
    expect(await notRefused(requests, ways[way], ip, sentence), way).toEqual([])
    const listed = await service.call<{ id: string }[]>('GET', '/v1/workspace', {
      token: ways[way],
      headers: from(ip),
    })
    expect(listed.body.map(({ id }) => id)).toEqual([workspace.id])
  }
  const after = await readContent(service.app.services)
  expect(describeChanges(before, after)).toEqual([])
  expect(after.trail).toBe(before.trail)
})
