/** Several nodes on one database: revoked and restricted credentials and deleted resources are refused by all of them. */
import type { SignedIn } from '@coffer/contract/auth'
import type { Role, Scope } from '@coffer/contract/field'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  exchange,
  password,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { allowedMs, openTwoNodes, statusOf, type TwoNodes } from '../../../test/two-nodes.ts'
import { until } from '../../../test/wait.ts'
import { flushUsage } from '../jobs/usage.ts'
import { sql } from '../store/engine/sql.ts'

const main = '/v1/workspace/main'

describe('a change on one node takes effect on both:', () => {
  let nodes: TwoNodes
  let here: TestService
  let there: TestService
  let owner: TestUser
  let made = 0

  beforeAll(async () => {
    nodes = await openTwoNodes()
    here = nodes.here
    there = nodes.there
    owner = nodes.owner
  })
  afterAll(() => nodes.stop())
  beforeEach(() => {
    made++
  })

  /** The change takes effect here on the very next request, and there within a second of the acknowledgement. */
  async function expectEverywhere(
    change: () => Promise<unknown>,
    credentials: readonly string[],
    expected: number,
    path?: string,
  ): Promise<void> {
    await change()
    const acknowledgedAt = performance.now()
    for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
    for (const token of credentials) {
      const hasHeard = async () => (await statusOf(there, token, path)) === expected || undefined
      const leftMs = allowedMs - (performance.now() - acknowledgedAt)
      await until(hasHeard, leftMs, 'the other node applies the change')
      // The old state does not return.
      expect(await statusOf(there, token, path)).toBe(expected)
    }
    for (const token of credentials) expect(await statusOf(here, token, path)).toBe(expected)
  }

  async function tokenAndJwt(session = owner.session, workspace = 'main') {
    const issued = await createToken(here, session, {}, workspace)
    return { ...issued, jwt: await exchange(here, issued.token) }
  }

  test('a revoked token and its JWTs are refused', async () => {
    for (let round = 0; round < 5; round++) {
      const { id, token, jwt } = await tokenAndJwt()
      await nodes.warm([token, jwt])
      const revoke = () => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })
      await expectEverywhere(revoke, [token, jwt], 401)
    }
  })

  test('a rotated token is accepted only with its new value, and JWTs of the old value are refused', async () => {
    const { id, token, jwt } = await tokenAndJwt()
    await nodes.warm([token, jwt])
    let next = ''
    const rotate = async () => {
      const answer = await here.call<IssuedToken>('POST', `${main}/tokens/${id}/rotate`, { token: owner.session })
      next = answer.body.token
    }
    await expectEverywhere(rotate, [token, jwt], 401)
    await nodes.warm([next])
    expect(await statusOf(there, await exchange(there, next))).toBe(200)
  })

  test('a token rotated with a grace period is accepted with both values until the period ends', async () => {
    const { id, token, jwt } = await tokenAndJwt()
    await nodes.warm([token, jwt])
    const body = { graceSeconds: 60 }
    const next = await here.call<IssuedToken>('POST', `${main}/tokens/${id}/rotate`, { token: owner.session, body })
    await nodes.warm([token, jwt, next.body.token])
    for (const node of [here, there]) node.clock.offsetMs = 61_000
    for (const node of [here, there]) {
      expect([await statusOf(node, token), await statusOf(node, jwt), await statusOf(node, next.body.token)]).toEqual([
        401, 401, 200,
      ])
    }
    for (const node of [here, there]) node.clock.offsetMs = 0
  })

  test('a logged-out session is refused, and other sessions of the person are accepted', async () => {
    const login = await here.call<SignedIn>('POST', '/v1/auth/login', { body: { email: owner.email, password } })
    const session = login.body.accessToken
    await nodes.warm([session, owner.session])
    await expectEverywhere(() => here.call('POST', '/v1/auth/logout', { token: session }), [session], 401)
    await nodes.warm([owner.session])
  })

  test('sessions ended by another session or by a password change are refused', async () => {
    const person = await nodes.addAdmin()
    const body = { email: person.email, password }
    const signIn = async () => (await here.call<SignedIn>('POST', '/v1/auth/login', { body })).body.accessToken
    const first = [await signIn(), await signIn()]
    await nodes.warm([person.session, ...first])
    await expectEverywhere(() => here.call('DELETE', '/v1/me/session', { token: person.session }), first, 401)
    const second = await signIn()
    await nodes.warm([person.session, second])
    const change = { currentPassword: password, newPassword: 'another long password' }
    await expectEverywhere(
      () => here.call('PUT', '/v1/me/password', { token: person.session, body: change }),
      [second],
      401,
    )
    await nodes.warm([person.session])
  })

  async function changeMember(
    { memberId }: TestUser,
    change: { role?: Role; scope?: Scope } | 'remove',
  ): Promise<void> {
    const method = change === 'remove' ? 'DELETE' : 'PUT'
    const body = change === 'remove' ? {} : { body: change }
    const { status, text } = await here.call(method, `${main}/rbac/${memberId}`, { token: owner.session, ...body })
    expect(status, text).toBe(200)
  }

  test('a lowered role restricts the sessions, tokens and JWTs of that person', async () => {
    const admin = await nodes.addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    const audit = `${main}/audit`
    await nodes.warm([admin.session, token, jwt], audit)
    await expectEverywhere(() => changeMember(admin, { role: 'member' }), [admin.session, token, jwt], 403, audit)
    for (const node of [here, there]) {
      for (const credential of [admin.session, token, jwt]) {
        const body = { name: `not made ${made}` }
        expect((await node.call('POST', `${main}/team`, { token: credential, body })).status).toBe(403)
      }
    }
  })

  test('a narrowed scope hides the rest', async () => {
    const admin = await nodes.addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    const other = await createProject(here, owner.session, `other-${made}`)
    const path = `${main}/project/api`
    await nodes.warm([admin.session, token, jwt], path)
    const scope = { all: false, teams: [], projects: [other.id], environments: [] }
    await expectEverywhere(() => changeMember(admin, { scope }), [admin.session, token, jwt], 404, path)
    await nodes.warm([admin.session, token, jwt], `${main}/project/other-${made}`)
  })

  test('a removed member loses the workspace and every token created in it', async () => {
    const admin = await nodes.addAdmin()
    const { token, jwt } = await tokenAndJwt(admin.session)
    await nodes.warm([admin.session, token, jwt])
    await expectEverywhere(() => changeMember(admin, 'remove'), [token, jwt], 401)
    for (const node of [here, there]) expect(await statusOf(node, admin.session)).toBe(404)
  })

  test('a deleted workspace and its tokens are gone', async () => {
    const slug = `short-${made}`
    await here.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Short', slug } })
    const { token, jwt } = await tokenAndJwt(owner.session, slug)
    const path = `/v1/workspace/${slug}/team`
    await nodes.warm([owner.session, token, jwt], path)
    const remove = () => here.call('DELETE', `/v1/workspace/${slug}`, { token: owner.session, body: { password } })
    await expectEverywhere(remove, [token, jwt], 401, path)
    for (const node of [here, there]) expect(await statusOf(node, owner.session, path)).toBe(404)
  })

  test('a deleted project is gone', async () => {
    const slug = `gone-${made}`
    await createProject(here, owner.session, slug)
    await nodes.warm([owner.session], `${main}/project/${slug}`)
    const remove = () => here.call('DELETE', `${main}/project/${slug}`, { token: owner.session })
    await expectEverywhere(remove, [owner.session], 404, `${main}/project/${slug}`)
  })

  test('a hundred tokens revoked at once are all refused within a second', async () => {
    const tokens = await Promise.all(Array.from({ length: 100 }, () => createToken(here, owner.session)))
    await Promise.all(tokens.map(({ token }) => statusOf(there, token)))
    const answers = await Promise.all(
      tokens.map(({ id }) => here.call('DELETE', `${main}/tokens/${id}`, { token: owner.session })),
    )
    const acknowledgedAt = performance.now()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(here, token))))).toEqual(new Set([401]))
    await until(() => performance.now() - acknowledgedAt > allowedMs || undefined, 2_000, 'one second has passed')
    expect(new Set(await Promise.all(tokens.map(({ token }) => statusOf(there, token))))).toEqual(new Set([401]))
  })

  test('both nodes record the use of the same tokens without conflicts', async () => {
    const tokens = await Promise.all(Array.from({ length: 150 }, () => createToken(here, owner.session)))
    for (let round = 0; round < 3; round++) {
      for (const node of [here, there]) {
        const order = node === here ? tokens : tokens.toReversed()
        for (const { token } of order) expect(await statusOf(node, token)).toBe(200)
      }
      const flushes = [here, there].map((node) => flushUsage(node.app.services).then(() => 'written', String))
      expect(await Promise.all(flushes)).toEqual(['written', 'written'])
    }
    const rows = await here.app.services.engine.all<{ id: string }>(sql`
      select id from token where last_used_at is null`)
    expect(tokens.filter(({ id }) => rows.some((row) => row.id === id))).toEqual([])
  })

  test('neither node has logged an error', () => nodes.expectNoErrors())
})
