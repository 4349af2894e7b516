/** Permissions to create, list and revoke shares. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Role } from '@coffer/contract/field'
import type { IssuedShare } from '@coffer/contract/share'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createIdentity, federate, loopbackAllowed, startIssuer } from '../../../../../test/issuer.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createShareProject, expectGone, type ShareProject } from '../../../../../test/share.ts'
import { changeMember } from '../../../../../test/world.ts'
import { everything } from '../../../domain/scope.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let project: ShareProject
let development: string
let staging: string
const ids = new Map<string, string>()

beforeAll(async () => {
  service = await startService({ COFFER_PUBLIC_URL: 'https://coffer.example.com', ...loopbackAllowed })
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  project = await createShareProject(service, owner.session)
  development = project.idOf('development')
  staging = project.idOf('staging')
  const values = { DB_HOST: 'db.example.com', DB_URL: `postgres://\${DB_HOST}/app`, EMPTY: '' }
  const made = await project.must<{ results: { key: string; id: string }[] }>('POST', '/secret', {
    environments: [development],
    secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
  })
  for (const { key, id } of made.results) ids.set(key, id)
  await project.set(staging, { DB_HOST: 'staging.example.com' })
})
afterAll(() => service.stop())

const secret = (key: string, environmentId = development) => ({ id: ids.get(key) ?? '', environmentId })

async function addMember(name: string, role: Role, scope = {}): Promise<TestUser> {
  const nothing = { all: false, teams: [], projects: [], environments: [] }
  const given = Object.keys(scope).length === 0 ? {} : { scope: { ...nothing, ...scope } }
  return addUser(service, `${name}@example.com`, { workspaceId, role, ...given })
}

async function trail(query: string): Promise<AuditEntry[]> {
  const path = `/v1/workspace/main/audit?limit=200&${query}`
  return (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body
}

describe('the permission to share', () => {
  let developer: TestUser
  let other: TestUser
  let member: TestUser
  let narrow: TestUser

  beforeAll(async () => {
    developer = await addMember('developer', 'developer')
    other = await addMember('other', 'developer')
    member = await addMember('member', 'member')
    narrow = await addMember('narrow', 'developer', { environments: [staging] })
  })

  const ask = (user: TestUser | string, method: string, path: string, body?: unknown) =>
    project.ask<{ message: string } & IssuedShare>(
      method,
      `/secret-share${path}`,
      body,
      typeof user === 'string' ? user : user.session,
    )

  test('a developer creates, lists and revokes their own shares, which other developers cannot see', async () => {
    const { id } = await project.make({ content: 'x' }, developer.session)
    expect((await project.list(developer.session)).map((share) => share.id)).toContain(id)
    expect((await project.list(other.session)).map((share) => share.id)).not.toContain(id)
    for (const [method, path] of [
      ['DELETE', `/${id}`],
      ['GET', `/${id}/view`],
    ] as const) {
      expectGone(await ask(other, method, path))
    }
    expect((await ask(developer, 'GET', `/${id}/view`)).status).toBe(200)
    expect((await ask(developer, 'DELETE', `/${id}`)).status).toBe(200)
    expect(await project.find(id)).toMatchObject({ state: 'revoked', createdById: developer.id })
  })

  test('an admin lists and revokes the shares of everyone', async () => {
    const { id, token } = await project.make({ content: 'x' }, developer.session)
    expect((await project.list()).map((share) => share.id)).toContain(id)
    await project.revoke(id)
    expectGone(await project.view(token))
  })

  test('a member can do nothing with shares, and a read-only token can neither create nor revoke them', async () => {
    const { id } = await project.make({ content: 'x' })
    const { token } = await createToken(service, owner.session, { permission: 'read' })
    const body = { content: 'x', expiresIn: 300 }
    for (const who of [member.session, token]) {
      expect((await ask(who, 'POST', '', body)).status).toBe(403)
      expect((await ask(who, 'DELETE', `/${id}`)).status).toBe(403)
    }
    expect((await ask(member, 'GET', '')).status).toBe(403)
    expect((await ask(token, 'GET', '')).status).toBe(200)
  })

  test('nobody can share a secret that they cannot read', async () => {
    const inReach = { secrets: [secret('DB_HOST', staging)], expiresIn: 300 }
    expect((await ask(narrow, 'POST', '', inReach)).status).toBe(201)
    expectGone(await ask(narrow, 'POST', '', { secrets: [secret('DB_HOST')], expiresIn: 300 }))
    const scope = { environments: [staging] }
    const { token } = await createToken(service, developer.session, { scope })
    expect((await ask(token, 'POST', '', inReach)).status).toBe(201)
    expectGone(await ask(token, 'POST', '', { secrets: [secret('DB_HOST')], expiresIn: 300 }))
  })

  test('a reference is resolved with the rights of the creator of the share', async () => {
    await project.set(staging, { ACROSS: `\${development.DB_HOST}` })
    const [across] = await project.must<{ id: string }[]>('GET', '/secret?q=ACROSS')
    const body = { secrets: [{ id: across?.id ?? '', environmentId: staging }], expiresIn: 300 }
    const valueFor = async (who: Parameters<typeof ask>[0]) => {
      const made = await ask(who, 'POST', '', body)
      expect(made.status, made.text).toBe(201)
      return (await project.view(Object(made.body).token)).body.secrets?.[0]?.value
    }
    expect(await valueFor(developer)).toBe((await project.state('development')).DB_HOST)
    expect(await valueFor(narrow)).toBe(`\${development.DB_HOST}`)
  })

  test('a token sees only those shares of its creator whose environments are in its scope', async () => {
    const { id } = await project.make({ secrets: [secret('DB_HOST')] }, developer.session)
    const text = await project.make({ content: 'x' }, developer.session)
    const { token } = await createToken(service, developer.session, { scope: { environments: [staging] } })
    const seen = (await project.list(token)).map((share) => share.id)
    expect(seen).toContain(text.id)
    expect(seen).not.toContain(id)
    expectGone(await ask(token, 'DELETE', `/${id}`))
    expect((await ask(token, 'DELETE', `/${text.id}`)).status).toBe(200)
  })

  test('an OIDC identity, which acts for no person, can neither create nor revoke shares', async () => {
    const { id } = await project.make({ content: 'x' })
    const issuer = await startIssuer()
    const rights = { permission: 'read-write', scope: { all: true } }
    await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'ci', ...rights })
    const identity = await federate(service, await issuer.sign({ sub: 'ci' }))
    await issuer.stop()
    const made = await ask(identity, 'POST', '', { content: 'x', expiresIn: 300 })
    expect(made).toMatchObject({ status: 403, body: { message: expect.stringMatching(/not an OIDC identity/) } })
    expect((await ask(identity, 'DELETE', `/${id}`)).status).toBe(403)
    expect((await ask(identity, 'GET', '')).body).toEqual([])
    expectGone(await ask(identity, 'GET', `/${id}/view`))
  })

  test.each<[string, () => Parameters<typeof changeMember>[3]]>([
    ['is a member only', () => ({ role: 'member', scope: everything })],
    [
      'lost the environment',
      () => ({ role: 'developer', scope: { ...everything, all: false, environments: [staging] } }),
    ],
  ])('a share cannot be opened while its creator %s', async (what, changeTo) => {
    const change = changeTo()
    const maker = await addMember(`maker-${what.replaceAll(' ', '-')}`, 'developer')
    const { token } = await project.make({ secrets: [secret('DB_HOST')], maxViews: 5 }, maker.session)
    expect((await project.view(token)).status).toBe(200)
    await changeMember(service, owner, maker.memberId ?? '', change)
    expectGone(await project.view(token))
    expectGone(await project.meta(token))
    await changeMember(service, owner, maker.memberId ?? '', { role: 'developer', scope: everything })
    expect((await project.view(token)).status).toBe(200)
  })

  test('a share cannot be opened while its creator has lost an environment that a reference led to', async () => {
    const elsewhere = await createShareProject(service, owner.session)
    await elsewhere.set(elsewhere.idOf('production'), { FAR: 'far away' })
    await project.set(staging, { TO_FAR: `\${${elsewhere.slug}.production.FAR}` })
    const [toFar] = await project.must<{ id: string }[]>('GET', '/secret?q=TO_FAR')
    const maker = await addMember('referring', 'developer')
    const body = { secrets: [{ id: toFar?.id ?? '', environmentId: staging }], maxViews: 5 }
    const { id, token } = await project.make(body, maker.session)
    expect((await project.view(token)).body.secrets).toEqual([{ name: 'TO_FAR', value: 'far away' }])
    const scope = { ...everything, all: false, environments: [staging] }
    await changeMember(service, owner, maker.memberId ?? '', { role: 'developer', scope })
    expectGone(await project.view(token))
    expect((await project.list(maker.session)).map((share) => share.id)).not.toContain(id)
    await changeMember(service, owner, maker.memberId ?? '', { role: 'developer', scope: everything })
    expect((await project.view(token)).status).toBe(200)
    await elsewhere.must('DELETE', '')
    await expectErased(id, token)
  })

  test('removing a member revokes their shares', async () => {
    const maker = await addMember('leaver', 'developer')
    const { id, token } = await project.make({ content: 'x' }, maker.session)
    await changeMember(service, owner, maker.memberId ?? '', 'removed')
    await expectErased(id, token)
    const [entry] = await trail(`entity=${maker.memberId}&action=DELETE`)
    expect(entry?.after).toMatchObject({ removed: { shares: 1 } })
  })

  /** The share is revoked, and its row holds nothing that could be decrypted. */
  async function expectErased(id: string, token: string): Promise<void> {
    expectGone(await project.view(token))
    expect(await project.find(id)).toMatchObject({ state: 'revoked' })
    const raw = await openRaw(service)
    expect(
      (await raw.query('select sealed, token_hash, mac from share where id = ?', [id])).map(Object.values),
    ).toEqual([[null, null, null]])
    await raw.close()
  }

  test('deleting an environment revokes its shares', async () => {
    const { id: fresh } = await project.must<{ id: string }>('POST', '/environment', { name: 'fresh' })
    const made = await project.must<{ results: { id: string }[] }>('POST', '/secret', {
      environments: [fresh],
      secrets: [{ key: 'FRESH', value: 'x' }],
    })
    const { id, token } = await project.make({ secrets: [{ id: made.results[0]?.id ?? '', environmentId: fresh }] })
    await project.must('DELETE', `/environment/${fresh}`)
    await expectErased(id, token)
  })
})
