/** Members of a workspace: who sees and changes them, and what a removed member loses. */
import type { Secret } from '@coffer/contract/secret'
import type { Workspace } from '@coffer/contract/workspace'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace, type Person } from '../../../../../test/member-workspace.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let raw: RawDatabase
let place: MemberWorkspace
let project: TestProject
let development: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  place = await createMemberWorkspace(service, owner)
  project = await createProject(service, owner.session, 'api', { workspace: place.slug })
  development = project.environments[0]?.id ?? ''
  await place.ask('PUT', `/project/api/environment/${development}`, { hasPersonalOverrides: true })
  const body = { environments: [development], secrets: [{ key: 'KEY', value: 'shared' }] }
  expect((await place.ask('POST', '/project/api/secret', body)).status).toBe(201)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const everything = { all: true, teams: [], projects: [], environments: [] }
const statusOf = async (token: string, path = '/project/api/secret') =>
  (await place.ask('GET', path, undefined, token)).status
const ownerRow = async () => (await place.members()).find(({ isOwner }) => isOwner)

async function tokensOf(person: Person): Promise<string[]> {
  const { token } = await createToken(service, person.session, { permission: 'read' }, place.slug)
  const cli = await place.ask<{ token: string }>('POST', '/tokens/cli', { environmentId: development }, person.session)
  return [token, await exchange(service, token), cli.body.token, await exchange(service, cli.body.token)]
}

describe('the list of members', () => {
  test('starts with the owner and shows everyone with role, scope and date', async () => {
    const [first] = await place.members()
    expect(first).toEqual({
      id: expect.any(String),
      workspaceId: place.id,
      user: { id: owner.id, email: owner.email, emailVerified: false, name: 'Owner' },
      role: 'admin',
      status: 'account-created',
      isOwner: true,
      scope: everything,
      grants: [{ role: 'admin', scope: everything }],
      invitedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
  })

  test('is for admins of the whole workspace', async () => {
    const people = [
      [await place.join({ role: 'member' }), 403],
      [await place.join({ role: 'developer' }), 403],
      [await place.join({ role: 'admin', scope: { projects: [project.id] } }), 403],
      [await place.join({ role: 'admin' }), 200],
    ] as const
    for (const [person, status] of people) expect(await statusOf(person.session, '/rbac'), person.email).toBe(status)
    const stranger = await addUser(service, place.newAddress())
    expect(await statusOf(stranger.session, '/rbac')).toBe(404)
  })

  test('omits members whose row was changed directly in the database', async () => {
    const person = await place.join({ role: 'member' })
    await raw.restoring(['member'], async () => {
      await raw.query('update member set role = ? where id = ?', ['admin', person.memberId])
      service.app.services.snapshots.clear()
      expect(await place.row(person.memberId)).toBeUndefined()
      expect((await place.ask('PUT', `/rbac/${person.memberId}`, { role: 'admin' })).status).toBe(404)
    })
    service.app.services.snapshots.clear()
  })

  test('stays complete when an account was changed directly in the database', async () => {
    const person = await place.join({ role: 'member' })
    await raw.restoring(['account'], async () => {
      await raw.query('update account set email = ? where id = ?', ['forged@example.com', person.id])
      expect(await place.row(person.memberId)).toMatchObject({ user: { id: person.id, email: '', name: '' } })
      expect((await place.members()).length).toBeGreaterThan(1)
    })
  })
})

describe('a change of role or scope', () => {
  test.each([
    ['a role', { role: 'admin' }],
    ['a scope', { scope: { all: true } }],
    ['both', { role: 'member', scope: { all: true } }],
  ])('of somebody with several grants is refused: %s', async (_what, body) => {
    const grants = [
      { role: 'developer', scope: { projects: [project.id] } },
      { role: 'member', scope: { all: true } },
    ]
    const person = await place.join({ role: 'member' })
    const { id } = await place.mustInvite({ role: undefined, scope: undefined, grants })
    expect((await place.ask('PUT', `/rbac/${person.memberId}`, { grants })).status).toBe(200)
    for (const row of [id, person.memberId]) {
      const before = await place.row(row)
      expect(await place.ask('PUT', `/rbac/${row}`, body)).toMatchObject({
        status: 409,
        body: { message: 'There are 2 grants: send the whole list as grants.' },
      })
      expect(await place.row(row)).toEqual(before)
      expect((await place.ask('PUT', `/rbac/${row}`, { grants: grants.slice(0, 1) })).status).toBe(200)
      expect((await place.ask('PUT', `/rbac/${row}`, body)).status).toBe(200)
    }
  })

  test.each(['member', 'invite'])(
    'accepts the scope of a %s back as it is shown, although a part of it was deleted',
    async (what) => {
      const doomed = await createProject(service, owner.session, `doomed-${what}`, { workspace: place.slug })
      const team = await createTeam(service, owner.session, `doomed ${what}`, place.slug)
      const [, staging, production] = doomed.environments
      const scope = { teams: [team], projects: [project.id], environments: [staging?.id, production?.id] }
      const { memberId: id } =
        what === 'member' ? await place.join({ scope }) : { memberId: (await place.mustInvite({ scope })).id }
      await place.ask('DELETE', `/team/${team}`)
      await place.ask('DELETE', `/project/doomed-${what}/environment/${staging?.id}`)
      const shown = (await place.row(id))?.scope
      expect(shown?.environments).toHaveLength(2)
      const changed = await place.ask('PUT', `/rbac/${id}`, { role: 'developer', scope: shown })
      expect(changed.status, changed.text).toBe(200)
      const left = { all: false, teams: [], projects: [project.id], environments: [production?.id] }
      expect(await place.row(id)).toMatchObject({ role: 'developer', scope: left })
      // An id that the row did not contain is still refused.
      const wrong = await place.ask('PUT', `/rbac/${id}`, { scope: { ...left, teams: [team] } })
      expect(wrong).toMatchObject({
        status: 400,
        body: { message: `scope: teams names ${team}, which you cannot access.` },
      })
      await place.ask('PUT', `/rbac/${id}`, { scope: { environments: [production?.id] } })
      await place.ask('DELETE', `/project/doomed-${what}`)
      expect(await place.ask('PUT', `/rbac/${id}`, { scope: { environments: [production?.id] } })).toMatchObject({
        status: 400,
        body: { message: 'scope: grants nothing: set "all", or list teams, projects or environments.' },
      })
    },
  )

  test('returns the updated row, and is recorded with before and after', async () => {
    const person = await place.join({ role: 'member' })
    const scope = { all: false, teams: [], projects: [project.id], environments: [] }
    const path = `/rbac/${person.memberId}`
    const changed = await place.ask('PUT', path, { role: 'developer', scope: { projects: [project.id.toUpperCase()] } })
    expect(changed.status).toBe(200)
    expect(changed.body).toEqual({ success: true, ...(await place.row(person.memberId)) })
    expect(await place.row(person.memberId)).toMatchObject({ role: 'developer', scope })
    expect((await place.ask('PUT', path.toUpperCase().replace('/RBAC', '/rbac'), { role: 'admin' })).status).toBe(200)
    expect((await place.trail(person.memberId)).slice(2)).toMatchObject([
      {
        action: 'UPDATE',
        entity: { type: 'member', name: person.email },
        actor: { id: owner.id },
        before: { role: 'member', scope: everything },
        after: { role: 'developer', scope },
      },
      { before: { role: 'developer', scope }, after: { role: 'admin', scope } },
    ])
  })

  test('takes effect with the next request, for existing sessions, tokens and JWTs', async () => {
    const person = await place.join({ role: 'admin' })
    const credentials = [person.session, ...(await tokensOf(person))]
    const { token: audit } = await createToken(service, person.session, {}, place.slug)
    const all = [...credentials, audit, await exchange(service, audit)]
    const other = await createProject(service, owner.session, 'other', { workspace: place.slug })
    const [there] = other.environments
    for (const credential of all) expect(await statusOf(credential), 'before').toBe(200)
    expect(await statusOf(audit, '/audit')).toBe(200)
    await place.ask('PUT', `/rbac/${person.memberId}`, { role: 'member' })
    expect(await statusOf(audit, '/audit')).toBe(403)
    expect((await place.ask('POST', '/team', { name: 'x' }, person.session)).status).toBe(403)
    await place.ask('PUT', `/rbac/${person.memberId}`, { scope: { environments: [there?.id] } })
    for (const credential of all) expect(await statusOf(credential), 'after').toBe(404)
    await place.ask('PUT', `/rbac/${person.memberId}`, { scope: { all: true } })
    for (const credential of credentials) expect(await statusOf(credential), 'again').toBe(200)
  })

  test('is refused for the owner, unless it changes nothing', async () => {
    const row = await ownerRow()
    const path = `/rbac/${row?.id}`
    for (const body of [{ role: 'developer' }, { role: 'member' }, { scope: { projects: [project.id] } }]) {
      const answer = await place.ask('PUT', path, body)
      expect(answer).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining('transfer ownership') },
      })
    }
    expect(await ownerRow()).toEqual(row)
    expect((await place.ask('PUT', path, { role: 'admin', scope: { all: true } })).status).toBe(200)
  })

  test.each([
    ['nothing', {}, 'body: must have at least one field.'],
    ['an unknown role', { role: 'owner' }, 'role: must be one of: member, developer, admin.'],
    ['ownership', { isOwner: true }, 'isOwner: is not a known field.'],
    [
      'an empty scope',
      { scope: { all: false } },
      'scope: grants nothing: set "all", or list teams, projects or environments.',
    ],
    ['another person', { user: { id: 'x' } }, 'user: is not a known field.'],
  ])('to %s is refused', async (_what, body, message) => {
    const person = await place.join({ role: 'member' })
    const before = await place.row(person.memberId)
    expect(await place.ask('PUT', `/rbac/${person.memberId}`, body)).toMatchObject({ status: 400, body: { message } })
    expect(await place.row(person.memberId)).toEqual(before)
  })

  test('needs an admin of the whole workspace, who may also change themselves', async () => {
    const admin = await place.join({ role: 'admin' })
    const part = await place.join({ role: 'admin', scope: { projects: [project.id] } })
    const developer = await place.join({ role: 'developer' })
    for (const person of [part, developer]) {
      for (const target of [person, admin, developer]) {
        const body = { role: 'admin', scope: { all: true } }
        expect((await place.ask('PUT', `/rbac/${target.memberId}`, body, person.session)).status).toBe(403)
        expect((await place.ask('DELETE', `/rbac/${target.memberId}`, undefined, person.session)).status).toBe(403)
      }
      expect((await place.invite({}, person.session)).status).toBe(403)
    }
    expect((await place.ask('PUT', `/rbac/${admin.memberId}`, { role: 'member' }, admin.session)).status).toBe(200)
    expect((await place.ask('PUT', `/rbac/${admin.memberId}`, { role: 'admin' }, admin.session)).status).toBe(403)
  })
})

describe('a removed member', () => {
  test('loses the workspace and all tokens there at once; sessions stay valid elsewhere', async () => {
    const person = await place.join({ role: 'developer' })
    const tokens = await tokensOf(person)
    await service.call('POST', '/v1/workspace', {
      token: person.session,
      body: { name: 'Own', slug: 'kept-place' },
    })
    const kept = await createToken(service, person.session, {}, 'kept-place')
    for (const token of [person.session, ...tokens]) expect(await statusOf(token)).toBe(200)
    expect((await place.ask('DELETE', `/rbac/${person.memberId}`)).body).toMatchObject({ success: true })
    expect(await statusOf(person.session)).toBe(404)
    for (const token of tokens) expect(await statusOf(token)).toBe(401)
    expect((await service.call('GET', '/v1/workspace/kept-place', { token: kept.token })).status).toBe(200)
    const workspaces = await service.call<Workspace[]>('GET', '/v1/workspace', { token: person.session })
    expect(workspaces.body.map(({ slug }) => slug)).toEqual(['kept-place'])
    expect(
      await raw.query('select id from token where created_by = ? and workspace_id = ?', [person.id, place.id]),
    ).toEqual([])
    expect((await place.ask('DELETE', `/rbac/${person.memberId}`)).status).toBe(404)
  })

  test('loses personal values; shared values, those of others and the audit trail stay', async () => {
    const [leaver, stayer] = [await place.join({ role: 'developer' }), await place.join({ role: 'developer' })]
    const write = (person: Person, value: string, isPersonal: boolean, key = 'KEY') =>
      place.ask(
        'PUT',
        `/project/api/secret/${key}/value`,
        { environmentId: development, value, isPersonal },
        person.session,
      )
    expect((await write(leaver, 'of the leaver', true)).status).toBe(200)
    expect((await write(stayer, 'of the stayer', true)).status).toBe(200)
    const created = { environments: [development], secrets: [{ key: 'MADE_BY_LEAVER', value: 'stays' }] }
    expect((await place.ask('POST', '/project/api/secret', created, leaver.session)).status).toBe(201)
    await place.ask('DELETE', `/rbac/${leaver.memberId}`)
    expect(await raw.query('select version from secret_value where owner_id = ?', [leaver.id])).toEqual([])
    const { body } = await place.ask<Secret[]>('GET', '/project/api/secret', undefined, stayer.session)
    const valuesOf = (name: string) => body.find((secret) => secret.name === name)?.values.map(({ value }) => value)
    expect(valuesOf('KEY')).toEqual(['shared', 'of the stayer'])
    expect(valuesOf('MADE_BY_LEAVER')).toEqual(['stays'])
    const { body: acts } = await place.ask<unknown[]>('GET', `/audit?actor=${leaver.id}`)
    expect(acts.length).toBeGreaterThan(1)
    expect((await place.trail(leaver.memberId)).at(-1)).toMatchObject({
      action: 'DELETE',
      entity: { type: 'member', name: leaver.email },
      before: { role: 'developer', scope: everything },
      after: { removed: { tokens: 0, personalValues: 1, shares: 0 } },
    })
  })

  test('starts over when invited again: no earlier token or value returns', async () => {
    const person = await place.join({ role: 'developer' })
    const tokens = await tokensOf(person)
    const value = { environmentId: development, value: 'own', isPersonal: true }
    await place.ask('PUT', '/project/api/secret/KEY/value', value, person.session)
    await place.ask('DELETE', `/rbac/${person.memberId}`)
    const { inviteToken } = await place.mustInvite({ email: person.email, role: 'member' })
    expect((await place.accept(person.session, inviteToken)).status).toBe(200)
    for (const token of tokens) expect(await statusOf(token)).toBe(401)
    const { text } = await place.ask('GET', '/project/api/secret', undefined, person.session)
    expect(text).not.toContain('"own"')
    expect((await place.ask('GET', '/tokens', undefined, person.session)).body).toEqual([])
  })

  test('can be an admin, removed by themselves too, but never the owner', async () => {
    const admin = await place.join({ role: 'admin' })
    const row = await ownerRow()
    const refused = await place.ask('DELETE', `/rbac/${row?.id}`, undefined, admin.session)
    expect(refused).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('transfer ownership') },
    })
    expect((await place.ask('DELETE', `/rbac/${row?.id}`)).status).toBe(409)
    expect((await place.ask('DELETE', `/rbac/${admin.memberId}`, undefined, admin.session)).status).toBe(200)
    expect(await statusOf(admin.session)).toBe(404)
    expect(await ownerRow()).toEqual(row)
  })
})
