/** Making, listing and revoking shares: what they hold, who may, what is written down. */
import { randomBytes } from 'node:crypto'
import type { AuditEntry } from '@coffer/contract/audit'
import type { Role } from '@coffer/contract/field'
import type { IssuedShare, NewShare, Share } from '@coffer/contract/share'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
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
import { endShares } from '../../../jobs/share.ts'

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

describe('a share', () => {
  test('of a text opens by its link', async () => {
    const made = await project.make({ content: 'a text\nwith lines', label: 'For Anna', maxViews: 2 })
    expect(made.token).toMatch(/^[0-9A-Za-z]{32}$/)
    expect(made.url).toBe(`https://coffer.example.com/share/${made.token}`)
    expect(made.maxViews).toBe(2)
    const { body: meta } = await project.meta(made.token)
    expect(meta).toEqual({
      kind: 'server',
      expiresAt: made.expiresAt,
      viewsLeft: 2,
      hasPassword: false,
      sizeBytes: 'a text\nwith lines'.length,
    })
    const { body } = await project.view(made.token)
    expect(body).toEqual({ content: 'a text\nwith lines', viewsLeft: 1 })
  })

  test('lives as long as was asked, and is for one reader unless more were asked for', async () => {
    const before = service.app.services.now()
    const { expiresAt, maxViews, id } = await project.make({ content: 'x', expiresIn: 300 })
    const after = service.app.services.now()
    expect(Date.parse(expiresAt)).toBeGreaterThanOrEqual(before + 300_000)
    expect(Date.parse(expiresAt)).toBeLessThanOrEqual(after + 300_000)
    expect(maxViews).toBe(1)
    expect(await project.find(id)).toMatchObject({ maxViews: 1, maxFailures: 10, views: 0, failures: 0 })
  })

  test('of secrets holds their values in the order that was asked for, references resolved', async () => {
    const { token } = await project.make({
      secrets: [secret('DB_URL'), secret('EMPTY'), secret('DB_HOST', staging), secret('DB_HOST')],
    })
    const { body } = await project.view(token)
    expect(body.secrets).toEqual([
      { name: 'DB_URL', value: 'postgres://db.example.com/app' },
      { name: 'EMPTY', value: '' },
      { name: 'DB_HOST', value: 'staging.example.com' },
      { name: 'DB_HOST', value: 'db.example.com' },
    ])
  })

  test('of secrets holds the values of its making, whatever happens to them later', async () => {
    const results = await project.must<{ results: { id: string }[] }>('POST', '/secret', {
      environments: [development],
      secrets: [{ key: 'LATER', value: 'then' }],
    })
    const id = results.results[0]?.id ?? ''
    const { token } = await project.make({ secrets: [{ id, environmentId: development }], maxViews: 3 })
    await project.set(development, { LATER: 'now' })
    expect((await project.view(token)).body.secrets).toEqual([{ name: 'LATER', value: 'then' }])
    await project.rename('LATER', 'RENAMED')
    await project.must('DELETE', '/secret/RENAMED')
    expect((await project.view(token)).body.secrets).toEqual([{ name: 'LATER', value: 'then' }])
  })

  test('of secrets never holds a value of one’s own', async () => {
    await project.allowPersonal('staging')
    const body = { environmentId: staging, value: 'mine alone', isPersonal: true }
    await project.must('PUT', '/secret/DB_HOST/value', body)
    await project.set(staging, { POINTER: `\${DB_HOST}` })
    const [pointer] = await project.must<{ id: string }[]>('GET', '/secret?q=POINTER')
    const { token } = await project.make({
      secrets: [secret('DB_HOST', staging), { id: pointer?.id ?? '', environmentId: staging }],
    })
    const { text } = await project.view(token)
    expect(text).toContain('staging.example.com')
    expect(text).not.toContain('mine alone')
    await project.must('DELETE', `/secret/DB_HOST?environmentId=${staging}&personal=true`)
  })

  test('of secrets loads the values that are in it, and no others', async () => {
    const production = project.idOf('production')
    await project.set(production, { DB_HOST: 'other', EMPTY: '', DB_URL: 'production' })
    const { engine } = service.app.services
    const list = vi.spyOn(engine, 'all')
    const wanted = [secret('DB_HOST'), secret('EMPTY', production), secret('DB_URL', production)]
    const { token } = await project.make({ secrets: wanted })
    const loaded = await Promise.all(list.mock.results.map(({ value }) => value))
    list.mockRestore()
    expect(loaded.flat().filter((row) => 'sealed' in Object(row))).toHaveLength(wanted.length)
    expect((await project.view(token)).body.secrets).toEqual([
      { name: 'DB_HOST', value: 'db.example.com' },
      { name: 'EMPTY', value: '' },
      { name: 'DB_URL', value: 'production' },
    ])
  })

  test('sealed by its sender comes back as it was sent, to be opened by its reader', async () => {
    const share = await project.makeSealed({ t: 'text', v: 'end to end' }, undefined, { maxViews: 2 })
    const { body: meta } = await project.meta(share.token)
    expect(meta).toMatchObject({ kind: 'e2e', hasPassword: false, sizeBytes: 284 })
    const { body } = await project.view(share.token, share.key)
    expect(body.viewsLeft).toBe(1)
    expect(await share.open(body.ciphertext ?? '', body.commit ?? '')).toEqual({ t: 'text', v: 'end to end' })
    expect(share.url).not.toContain('#')
  })

  test('holds 512 KiB as JSON, by bytes and not by characters', async () => {
    const room = 512 * 1024 - JSON.stringify({ content: '' }).length
    const largest = 'é'.repeat(room / 2)
    const { token } = await project.make({ content: largest })
    expect((await project.meta(token)).body.sizeBytes).toBe(room)
    expect((await project.view(token)).body.content).toBe(largest)
    const answer = await project.ask('POST', '/secret-share', { content: `${largest}x`, expiresIn: 300 })
    expect(answer).toMatchObject({ status: 400, body: { message: 'content: a share holds 512 KiB at most, as JSON.' } })
  })

  const largestValues: [string, string][] = [
    ['letters', 'x'.repeat(65_536)],
    ['letters of several bytes', '😀'.repeat(16_384)],
    ['quotes and line ends', '"\n\\\t'.repeat(16_384)],
    ['what takes JSON six bytes each', '\u0001'.repeat(65_536)],
  ]
  test.each(largestValues)('holds the largest value of a secret, of %s, in each of its ways', async (_what, value) => {
    const name = 'L'.repeat(255)
    await project.set(development, { [name]: value })
    const [largest] = await project.must<{ id: string }[]>('GET', '/secret?q=LLLL&view=keys')
    const copied = await project.make({ secrets: [{ id: largest?.id ?? '', environmentId: development }] })
    expect((await project.view(copied.token)).body.secrets).toEqual([{ name, value }])
    const text = await project.make({ content: value })
    expect((await project.view(text.token)).body.content).toBe(value)
    for (const content of [
      { t: 'text' as const, v: value },
      { t: 'kv' as const, items: [{ name, value }] },
    ]) {
      const share = await project.makeSealed(content)
      const { body } = await project.view(share.token, share.key)
      expect(await share.open(body.ciphertext ?? '', body.commit ?? '')).toEqual(content)
    }
  })

  test('of secrets holds 512 KiB together', async () => {
    const key = Array.from({ length: 9 }, (_, index) => `LARGE_${index}`)
    await project.set(development, Object.fromEntries(key.map((name) => [name, name.padEnd(60_000, 'x')])))
    const large = await project.must<{ id: string }[]>('GET', '/secret?q=LARGE_')
    const secrets = large.map(({ id }) => ({ id, environmentId: development }))
    const answer = await project.ask('POST', '/secret-share', { secrets, expiresIn: 300 })
    expect(answer).toMatchObject({ status: 400, body: { message: 'secrets: a share holds 512 KiB at most, as JSON.' } })
    const { token } = await project.make({ secrets: secrets.slice(0, 8) })
    expect((await project.view(token)).body.secrets?.[7]?.value).toHaveLength(60_000)
  })

  test('keeps a reference that leads nowhere as it stands', async () => {
    await project.set(development, { DANGLING: `\${HOME}/\${DB_HOST}` })
    const [dangling] = await project.must<{ id: string }[]>('GET', '/secret?q=DANGLING')
    const { token } = await project.make({ secrets: [{ id: dangling?.id ?? '', environmentId: development }] })
    const host = (await project.state('development')).DB_HOST
    expect((await project.view(token)).body.secrets).toEqual([{ name: 'DANGLING', value: `\${HOME}/${host}` }])
  })
})

describe('what is refused, and leaves nothing behind:', () => {
  const bytes = (count: number) => randomBytes(count).toString('base64url')
  const envelope = () => ({ ciphertext: bytes(284), commit: bytes(32), linkProofHash: bytes(32) })
  const refusals: [string, () => object, RegExp][] = [
    ['nothing to share', () => ({}), /^content: send exactly one/],
    ['two things at once', () => ({ content: 'x', secrets: [secret('DB_URL')] }), /^content: send exactly one/],
    ['all three at once', () => ({ content: 'x', secrets: [secret('DB_URL')], envelope: envelope() }), /^content: /],
    ['an empty text', () => ({ content: '' }), /^content: must not be empty/],
    ['a text that is none', () => ({ content: 1 }), /^content: must be a string/],
    ['no secrets', () => ({ secrets: [] }), /^secrets: /],
    ['the same value twice', () => ({ secrets: [secret('DB_URL'), secret('DB_URL')] }), /^secrets: names the same/],
    ['a secret by its name', () => ({ secrets: [{ ...secret('X'), id: 'DB_URL' }] }), /^secrets\.0\.id: /],
    ['a life too short', () => ({ content: 'x', expiresIn: 299 }), /^expiresIn: must be 300 or more/],
    ['a life too long', () => ({ content: 'x', expiresIn: 2_592_001 }), /^expiresIn: must be 2592000 or less/],
    ['no life', () => ({ content: 'x', expiresIn: undefined }), /^expiresIn: is required/],
    ['no views', () => ({ content: 'x', maxViews: 0 }), /^maxViews: must be 1 or more/],
    ['too many views', () => ({ content: 'x', maxViews: 101 }), /^maxViews: must be 100 or less/],
    ['too few failures', () => ({ content: 'x', maxFailures: 2 }), /^maxFailures: must be 3 or more/],
    ['too many failures', () => ({ content: 'x', maxFailures: 21 }), /^maxFailures: must be 20 or less/],
    ['an empty password', () => ({ content: 'x', password: '' }), /^password: must not be empty/],
    ['a label of two lines', () => ({ content: 'x', label: 'a\nb' }), /^label: /],
    ['an unknown field', () => ({ content: 'x', colour: 'red' }), /^colour: is not a known field/],
    [
      'a password beside an envelope',
      () => ({ envelope: envelope(), password: 'x' }),
      /^password: must not be sent for an end-to-end share/,
    ],
    ['an envelope that is not padded', () => ({ envelope: { ...envelope(), ciphertext: bytes(300) } }), /^envelope\.c/],
    [
      'an envelope too small',
      () => ({ envelope: { ...envelope(), ciphertext: bytes(28) } }),
      /^envelope\.ciphertext: /,
    ],
    [
      'one too large',
      () => ({ envelope: { ...envelope(), ciphertext: bytes(512 * 1024 + 284) } }),
      /^envelope\.ciphertext: /,
    ],
    ['a commitment too short', () => ({ envelope: { ...envelope(), commit: bytes(31) } }), /^envelope\.commit: /],
    ['a hash with padding', () => ({ envelope: { ...envelope(), linkProofHash: `${bytes(32)}=` } }), /^envelope\.link/],
    [
      'a hash in a second spelling',
      () => ({ envelope: { ...envelope(), commit: 'B'.repeat(43) } }),
      /^envelope\.commit/,
    ],
    [
      'an envelope with more in it',
      () => ({ envelope: { ...envelope(), key: 'x' } }),
      /^envelope\.key: is not a known/,
    ],
  ]
  test.each(refusals)('%s', async (_what, make, message) => {
    const before = await readContent(service.app.services)
    const answer = await project.ask('POST', '/secret-share', { expiresIn: 300, ...make() })
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.message).toMatch(message)
    const after = await readContent(service.app.services)
    expect(describeChanges(before, after)).toEqual([])
    expect(after.trail).toBe(before.trail)
  })

  test.each<[string, () => object]>([
    ['an environment that does not exist', () => secret('DB_URL', crypto.randomUUID())],
    ['a secret that does not exist', () => ({ id: crypto.randomUUID(), environmentId: development })],
    ['a secret without a value there', () => secret('DB_URL', staging)],
  ])('%s is not found', async (_what, place) => {
    const answer = await project.ask('POST', '/secret-share', { secrets: [secret('DB_HOST'), place()], expiresIn: 300 })
    expectGone(answer)
  })

  test('more living shares than a project may have', async () => {
    const crowded = await createShareProject(service, owner.session)
    const { id } = await crowded.make({ content: 'the first' })
    const raw = await openRaw(service)
    const others = 'with recursive c (n) as (select 1 union all select n + 1 from c where n < 999) select n from c'
    const [row = {}] = await raw.query('select * from share where id = ?', [id])
    const copied = Object.keys(row).map((column) => {
      if (column === 'id') return 'id || n'
      return column === 'token_hash' ? 'null' : column
    })
    await raw.query(`insert into share select ${copied.join(', ')} from share, (${others}) numbers where id = ?`, [id])
    await raw.close()
    const answer = await crowded.ask('POST', '/secret-share', { content: 'one more', expiresIn: 300 })
    expect(answer.status, answer.text).toBe(409)
    expect(answer.body.message).toMatch(/^This project has 1000 active shares/)
    await crowded.revoke(id)
    expect((await crowded.ask('POST', '/secret-share', { content: 'one more', expiresIn: 300 })).status).toBe(201)
    await service.call('DELETE', crowded.root, { token: owner.session })
  })
})

describe('the list', () => {
  test('shows every share with its state, newest first, and never a token or what it holds', async () => {
    const alone = await createShareProject(service, owner.session)
    const active = await alone.make({ content: 'canary-1', label: 'active' })
    const viewed = await alone.make({ content: 'canary-2', label: 'viewed' })
    await alone.view(viewed.token)
    const revoked = await alone.make({ content: 'canary-3', label: 'revoked' })
    await alone.revoke(revoked.id)
    const locked = await alone.make({ content: 'canary-4', label: 'locked', password: 'right', maxFailures: 3 })
    for (let guess = 0; guess < 3; guess++) await alone.view(locked.token, { password: 'wrong' })
    const expired = await alone.make({ content: 'canary-5', label: 'expired', expiresIn: 300 })
    service.clock.offsetMs += 301_000
    try {
      const answer = await alone.ask<Share[]>('GET', '/secret-share')
      expect(answer.body.map(({ label, state, views, failures }) => [label, state, views, failures])).toEqual([
        ['expired', 'expired', 0, 0],
        ['locked', 'locked', 0, 3],
        ['revoked', 'revoked', 0, 0],
        ['viewed', 'exhausted', 1, 0],
        ['active', 'active', 0, 0],
      ])
      expect(answer.body[1]).toMatchObject({ hasPassword: true, createdById: owner.id, kind: 'server' })
      expect(answer.body[3]?.lastViewedAt).toMatch(/Z$/)
      expect(answer.text).not.toMatch(/canary/)
      for (const { token } of [active, viewed, revoked, locked, expired]) expect(answer.text).not.toContain(token)
    } finally {
      service.clock.offsetMs = 0
    }
  })

  test('keeps ended ones for 90 days, and their views with them', async () => {
    // A service of its own: sessions do not live that long.
    const aged = await startService()
    const alone = await createShareProject(aged, (await registerOwner(aged)).session)
    const { id, token } = await alone.make({ content: 'x' })
    await alone.view(token)
    const dayMs = 24 * 60 * 60 * 1000
    const { cleanUp } = await import('../../../jobs/cleanup.ts')
    const { services } = aged.app
    await cleanUp({ ...services, now: () => Date.now() + 90 * dayMs - 60_000 })
    expect(await alone.views(id)).toHaveLength(1)
    await cleanUp({ ...services, now: () => Date.now() + 90 * dayMs })
    expect(await alone.list()).toEqual([])
    expectGone(await alone.ask('GET', `/secret-share/${id}/view`))
    await aged.stop()
  })

  test('of views tells from where, with what and how it ended', async () => {
    const { id, token } = await project.make({ content: 'x', password: 'right', maxViews: 2 })
    await project.view(token, { password: 'wrong' }, { 'user-agent': 'first/1.0' })
    await project.view(token, { password: 'right' }, { 'user-agent': `second ${'x'.repeat(400)}` })
    const views = await project.views(id)
    expect(views.map(({ outcome, ip }) => [outcome, ip])).toEqual([
      ['success', '127.0.0.1'],
      ['failure', '127.0.0.1'],
    ])
    expect(views[0]?.userAgent).toBe(`second ${'x'.repeat(400)}`.slice(0, 256))
    expect(views[1]?.userAgent).toBe('first/1.0')
  })
})

describe('who may', () => {
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

  test('a developer makes, sees and revokes their own; another developer does not know of them', async () => {
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

  test('an admin sees and revokes everyone’s', async () => {
    const { id, token } = await project.make({ content: 'x' }, developer.session)
    expect((await project.list()).map((share) => share.id)).toContain(id)
    await project.revoke(id)
    expectGone(await project.view(token))
  })

  test('a member may do none of it, nor may a read-only token make or revoke one', async () => {
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

  test('nobody shares what they cannot read', async () => {
    const inReach = { secrets: [secret('DB_HOST', staging)], expiresIn: 300 }
    expect((await ask(narrow, 'POST', '', inReach)).status).toBe(201)
    expectGone(await ask(narrow, 'POST', '', { secrets: [secret('DB_HOST')], expiresIn: 300 }))
    const scope = { environments: [staging] }
    const { token } = await createToken(service, developer.session, { scope })
    expect((await ask(token, 'POST', '', inReach)).status).toBe(201)
    expectGone(await ask(token, 'POST', '', { secrets: [secret('DB_HOST')], expiresIn: 300 }))
  })

  test('a reference is resolved with the rights of who shares it', async () => {
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

  test('a token sees of its maker’s shares only those that were made from what it reaches', async () => {
    const { id } = await project.make({ secrets: [secret('DB_HOST')] }, developer.session)
    const text = await project.make({ content: 'x' }, developer.session)
    const { token } = await createToken(service, developer.session, { scope: { environments: [staging] } })
    const seen = (await project.list(token)).map((share) => share.id)
    expect(seen).toContain(text.id)
    expect(seen).not.toContain(id)
    expectGone(await ask(token, 'DELETE', `/${id}`))
    expect((await ask(token, 'DELETE', `/${text.id}`)).status).toBe(200)
  })

  test('an identity, which nobody stands behind, makes and revokes none', async () => {
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
  ])('a share opens for nobody while its maker %s', async (what, changeTo) => {
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

  test('nor while they lost an environment that a reference led to', async () => {
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

  test('whoever is removed takes their shares along, also if they come back', async () => {
    const maker = await addMember('leaver', 'developer')
    const { id, token } = await project.make({ content: 'x' }, maker.session)
    await changeMember(service, owner, maker.memberId ?? '', 'removed')
    await expectErased(id, token)
    const [entry] = await trail(`entity=${maker.memberId}&action=DELETE`)
    expect(entry?.after).toMatchObject({ removed: { shares: 1 } })
  })

  /** Revoked, with nothing left in its row that could be opened. */
  async function expectErased(id: string, token: string): Promise<void> {
    expectGone(await project.view(token))
    expect(await project.find(id)).toMatchObject({ state: 'revoked' })
    const raw = await openRaw(service)
    expect(
      (await raw.query('select sealed, token_hash, mac from share where id = ?', [id])).map(Object.values),
    ).toEqual([[null, null, null]])
    await raw.close()
  }

  test('a share of an environment goes with it', async () => {
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

describe('the audit trail', () => {
  test('has the making of a share of secrets as a read of them too, and no value', async () => {
    const { id } = await project.make({ secrets: [secret('DB_URL'), secret('EMPTY')], label: 'audited' })
    const [made] = await trail(`entity=${id}&action=CREATE`)
    expect(made).toMatchObject({ entity: { type: 'share', id, name: 'audited' }, projectId: project.id })
    expect(made?.after).toMatchObject({ kind: 'server', maxViews: 1, keys: ['DB_URL', 'EMPTY'] })
    const [read] = await trail(`action=VIEW&project=${project.slug}`)
    expect(read).toMatchObject({ actor: { id: owner.id }, entity: { type: 'secrets', id: project.id } })
    const referenced = [`${project.slug}.development.DB_HOST`]
    expect(read?.after).toEqual({ keys: ['DB_URL', 'EMPTY'], environments: ['development'], referenced, share: id })
    expect(JSON.stringify([made, read])).not.toContain('db.example.com')
  })

  test('has every view with address and agent, every wrong password, and the revocation', async () => {
    const { id, token } = await project.make({ content: 'x', password: 'right', maxViews: 2 })
    await project.view(token, { password: 'wrong' }, { 'user-agent': 'guesser' })
    await project.view(token, { password: 'right' }, { 'user-agent': 'reader' })
    await project.revoke(id)
    const entries = await trail(`entity=${id}`)
    expect(entries.map(({ action, outcome, userAgent }) => [action, outcome, userAgent])).toEqual([
      ['DELETE', 'success', 'node'],
      ['VIEW', 'success', 'reader'],
      ['VIEW', 'failure', 'guesser'],
      ['CREATE', 'success', 'node'],
    ])
    expect(entries[1]).toMatchObject({ actor: { type: 'anonymous' }, ip: '127.0.0.1', after: { viewsLeft: 1 } })
  })

  test('keeps nothing of those who have no share to read', async () => {
    const before = await readContent(service.app.services)
    await project.view('unknown')
    await project.meta('unknown')
    expect((await readContent(service.app.services)).trail).toBe(before.trail)
  })
})

test('revoking what has ended changes nothing, and is no error', async () => {
  const { id, token } = await project.make({ content: 'x' })
  await project.view(token)
  const { trail } = await readContent(service.app.services)
  await project.revoke(id)
  await project.revoke(id)
  expect(await project.find(id)).toMatchObject({ state: 'exhausted' })
  expect((await readContent(service.app.services)).trail).toBe(trail)
})

test('the job changes nothing while nothing has ended', async () => {
  const { id } = await project.make({ content: 'x' } satisfies Partial<NewShare>)
  await endShares(service.app.services)
  const before = await readContent(service.app.services)
  await endShares(service.app.services)
  expect(describeChanges(before, await readContent(service.app.services))).toEqual([])
  expect(await project.find(id)).toMatchObject({ state: 'active' })
})
