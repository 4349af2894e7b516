/** Service accounts on several nodes: changes on one node take effect on the others within a second. */
import type { ServiceAccount } from '@coffer/contract/service-account'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createToken, exchange, type TestService, type TestUser } from '../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../test/service-account.ts'
import { allowedMs, openTwoNodes, statusOf, type TwoNodes } from '../../../test/two-nodes.ts'
import { until } from '../../../test/wait.ts'

const main = '/v1/workspace/main'
const teams = `${main}/team`
const members = `${main}/rbac`

let nodes: TwoNodes
let here: TestService
let there: TestService
let owner: TestUser
let made = 0

beforeAll(async () => {
  nodes = await openTwoNodes()
  ;({ here, there, owner } = nodes)
})
afterAll(() => nodes.stop())

const everything = { all: true }
const account = (role: 'admin' | 'developer' = 'admin') =>
  createServiceAccount(here, owner.session, { name: `account ${++made}`, grants: [{ role, scope: everything }] })

async function tokenAndJwt(accountId: string): Promise<string[]> {
  const { token } = await createServiceToken(here, owner.session, accountId)
  return [token, await exchange(here, token)]
}

/** Immediately on the node of the change, and there within a second of the acknowledgement. */
async function expectEverywhere(credentials: readonly string[], path: string, expected: number): Promise<void> {
  const acknowledgedAt = performance.now()
  for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
  for (const token of credentials) {
    const hasHeard = async () => (await statusOf(there, token, path)) === expected || undefined
    await until(hasHeard, allowedMs - (performance.now() - acknowledgedAt), 'the other node applies the change')
    expect(await statusOf(there, token, path)).toBe(expected)
  }
}

test('a new account and its token are accepted everywhere, and listed at once', async () => {
  const { id } = await account()
  const credentials = await tokenAndJwt(id)
  const { body } = await there.call<ServiceAccount[]>('GET', `${main}/service-account`, { token: owner.session })
  expect(body.find((listed) => listed.id === id)).toMatchObject({ tokens: 1 })
  await expectEverywhere(credentials, teams, 200)
})

test('narrower grants are refused everywhere', async () => {
  const { id } = await account()
  const credentials = await tokenAndJwt(id)
  await nodes.warm(credentials, members)
  const body = { grants: [{ role: 'developer', scope: everything }] }
  await here.call('PUT', `${main}/service-account/${id}`, { token: owner.session, body })
  await expectEverywhere(credentials, members, 403)
  await expectEverywhere(credentials, teams, 200)
})

test('a removed account is refused everywhere', async () => {
  const { id } = await account()
  const credentials = await tokenAndJwt(id)
  await nodes.warm(credentials)
  await here.call('DELETE', `${main}/service-account/${id}`, { token: owner.session })
  await expectEverywhere(credentials, teams, 401)
})

test('a transferred token has the rights of its account everywhere, and outlives its person', async () => {
  const admin = await nodes.addAdmin()
  const { id, token } = await createToken(here, admin.session)
  const credentials = [token, await exchange(here, token)]
  await nodes.warm(credentials, members)
  const body = { serviceAccountId: (await account('developer')).id }
  const transferred = await here.call('POST', `${main}/tokens/${id}/transfer`, { token: owner.session, body })
  expect(transferred.status, transferred.text).toBe(200)
  await expectEverywhere(credentials, members, 403)
  await here.call('DELETE', `${members}/${admin.memberId}`, { token: owner.session })
  await expectEverywhere([admin.session], main, 404)
  await expectEverywhere(credentials, teams, 200)
})

test('no node has logged an error', () => {
  nodes.expectNoErrors()
})
