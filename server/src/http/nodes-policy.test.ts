/** A policy, and what people do to meet it, takes effect on every node within a second. */
import { openPolicy, type PolicyChange } from '@coffer/contract/policy'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { setUpTotp } from '../../../test/authenticator.ts'
import { createToken, exchange, password, type TestService, type TestUser } from '../../../test/harness.ts'
import { allowedMs, openTwoNodes, statusOf, type TwoNodes } from '../../../test/two-nodes.ts'
import { until } from '../../../test/wait.ts'
import { resetSecondFactor } from '../domain/account/mfa.ts'
import { asOperator } from '../domain/context.ts'

let nodes: TwoNodes
let here: TestService
let there: TestService
let person: TestUser
let credentials: string[]

beforeAll(async () => {
  nodes = await openTwoNodes()
  ;({ here, there } = nodes)
  await setUpTotp(here, nodes.owner.session)
})
afterAll(() => nodes.stop())
beforeEach(async () => {
  await set({})
  person = await nodes.addAdmin()
  const { token } = await createToken(here, person.session)
  credentials = [person.session, token, await exchange(here, token)]
  await nodes.warm(credentials)
})

async function set(change: Partial<PolicyChange>): Promise<void> {
  const answer = await here.call('PUT', '/v1/workspace/main/policy', {
    token: nodes.owner.session,
    body: { ...openPolicy, ...change },
  })
  expect(answer.status, answer.text).toBe(200)
}

/** On this node at the next request, on the other one soon. */
async function expectEverywhere(status: number): Promise<void> {
  for (const token of credentials) expect(await statusOf(here, token)).toBe(status)
  const isKnown = async () => {
    for (const token of credentials) if ((await statusOf(there, token)) !== status) return undefined
    return true
  }
  await until(isKnown, allowedMs, `the other node answers ${status}`)
}

test('a policy closes and opens the workspace', async () => {
  await set({ requireMfa: true })
  await expectEverywhere(403)
  await set({})
  await expectEverywhere(200)
})

test('a second factor opens the workspace, and its removal closes it', async () => {
  await set({ requireMfa: true })
  await expectEverywhere(403)
  const app = await setUpTotp(here, person.session)
  await expectEverywhere(200)
  const removed = await here.call('DELETE', '/v1/me/mfa/totp', {
    token: person.session,
    body: { code: app.recoveryCodes[0], password },
  })
  expect(removed.status, removed.text).toBe(200)
  await expectEverywhere(403)
})

test.each<[who: string, reset: () => Promise<unknown>]>([
  [
    'an admin',
    async () => {
      const { owner } = nodes
      const answer = await here.call('DELETE', `/v1/workspace/main/rbac/${person.memberId}/mfa`, {
        token: owner.session,
      })
      expect(answer.status, answer.text).toBe(200)
    },
  ],
  ['the operator', () => resetSecondFactor(asOperator(here.app.services), person.email)],
])('a reset of the second factor by %s closes the workspace', async (_who, reset) => {
  await setUpTotp(here, person.session)
  await set({ requireMfa: true })
  await expectEverywhere(200)
  await reset()
  await expectEverywhere(403)
})

test('a node that has not heard of a policy yet creates nothing against it', async () => {
  const share = { content: 'shared', expiresIn: 3_600 }
  for (let round = 0; round < 5; round++) {
    await set({})
    await nodes.warm(credentials)
    await set({ maxTokenDays: 1, sharing: { ...openPolicy.sharing, enabled: false } })
    const token = await there.call('POST', '/v1/workspace/main/tokens', {
      token: person.session,
      body: { name: 'late', permission: 'read', scope: { all: true }, expiresIn: 'never' },
    })
    const shared = await there.call('POST', '/v1/workspace/main/project/api/secret-share', {
      token: person.session,
      body: share,
    })
    expect([token.status, shared.status]).toEqual([403, 403])
    await set({ requireMfa: true })
    const late = await there.call('POST', '/v1/workspace/main/rbac', {
      token: person.session,
      body: { email: `late-${round}@example.com`, role: 'member', scope: { all: true } },
    })
    expect(late.status).toBe(403)
  }
})
