/** Creating, listing and revoking shares: their contents and their audit entries. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { NewShare, Share } from '@coffer/contract/share'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { loopbackAllowed } from '../../../../../test/issuer.ts'
import { createShareProject, expectGone, type ShareProject } from '../../../../../test/share.ts'
import { endShares } from '../../../jobs/share.ts'

let service: TestService
let owner: TestUser
let project: ShareProject
let development: string
let staging: string
const ids = new Map<string, string>()

beforeAll(async () => {
  service = await startService({ COFFER_PUBLIC_URL: 'https://coffer.example.com', ...loopbackAllowed })
  owner = await registerOwner(service)
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

async function trail(query: string): Promise<AuditEntry[]> {
  const path = `/v1/workspace/main/audit?limit=200&${query}`
  return (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body
}

describe('a share', () => {
  test('with text opens by its link', async () => {
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

  test('expires after expiresIn, and allows one view by default', async () => {
    const before = service.app.services.now()
    const { expiresAt, maxViews, id } = await project.make({ content: 'x', expiresIn: 300 })
    const after = service.app.services.now()
    expect(Date.parse(expiresAt)).toBeGreaterThanOrEqual(before + 300_000)
    expect(Date.parse(expiresAt)).toBeLessThanOrEqual(after + 300_000)
    expect(maxViews).toBe(1)
    expect(await project.find(id)).toMatchObject({ maxViews: 1, maxFailures: 10, views: 0, failures: 0 })
  })

  test('with secrets holds their values in the requested order, with references resolved', async () => {
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

  test('with secrets holds their values at its creation, whatever happens to them later', async () => {
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

  test('with secrets never holds a personal value', async () => {
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

  test('with secrets loads only the values that it holds', async () => {
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

  test('encrypted by its sender is returned as it was sent, and decrypted by its reader', async () => {
    const share = await project.makeSealed({ t: 'text', v: 'end to end' }, undefined, { maxViews: 2 })
    const { body: meta } = await project.meta(share.token)
    expect(meta).toMatchObject({ kind: 'e2e', hasPassword: false, sizeBytes: 284 })
    const { body } = await project.view(share.token, share.key)
    expect(body.viewsLeft).toBe(1)
    expect(await share.open(body.ciphertext ?? '', body.commit ?? '')).toEqual({ t: 'text', v: 'end to end' })
    expect(share.url).not.toContain('#')
  })

  test('holds 512 KiB as JSON, counted in bytes and not in characters', async () => {
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
    ['multi-byte characters', '😀'.repeat(16_384)],
    ['quotes and line breaks', '"\n\\\t'.repeat(16_384)],
    ['characters that take six bytes in JSON', '\u0001'.repeat(65_536)],
  ]
  test.each(largestValues)(
    'holds the largest secret value, made of %s, in every kind of share',
    async (_what, value) => {
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
    },
  )

  test('with secrets holds 512 KiB in total', async () => {
    const key = Array.from({ length: 9 }, (_, index) => `LARGE_${index}`)
    await project.set(development, Object.fromEntries(key.map((name) => [name, name.padEnd(60_000, 'x')])))
    const large = await project.must<{ id: string }[]>('GET', '/secret?q=LARGE_')
    const secrets = large.map(({ id }) => ({ id, environmentId: development }))
    const answer = await project.ask('POST', '/secret-share', { secrets, expiresIn: 300 })
    expect(answer).toMatchObject({ status: 400, body: { message: 'secrets: a share holds 512 KiB at most, as JSON.' } })
    const { token } = await project.make({ secrets: secrets.slice(0, 8) })
    expect((await project.view(token)).body.secrets?.[7]?.value).toHaveLength(60_000)
  })

  test('keeps an unresolved reference as it is', async () => {
    await project.set(development, { DANGLING: `\${HOME}/\${DB_HOST}` })
    const [dangling] = await project.must<{ id: string }[]>('GET', '/secret?q=DANGLING')
    const { token } = await project.make({ secrets: [{ id: dangling?.id ?? '', environmentId: development }] })
    const host = (await project.state('development')).DB_HOST
    expect((await project.view(token)).body.secrets).toEqual([{ name: 'DANGLING', value: `\${HOME}/${host}` }])
  })
})

describe('the list of shares', () => {
  test('shows every share with its state, newest first, and never a token or contents', async () => {
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

  test('keeps ended shares and their views for 90 days', async () => {
    // Uses its own service, because sessions expire earlier.
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

  test('has a list of views with IP address, user agent and outcome', async () => {
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

describe('the audit trail', () => {
  test('records the creation of a share as a read of its secrets, too, without values', async () => {
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

  test('records every view with IP address and user agent, every wrong password, and the revocation', async () => {
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

  test('records nothing for an unknown token', async () => {
    const before = await readContent(service.app.services)
    await project.view('unknown')
    await project.meta('unknown')
    expect((await readContent(service.app.services)).trail).toBe(before.trail)
  })
})

test('revoking an ended share changes nothing and succeeds', async () => {
  const { id, token } = await project.make({ content: 'x' })
  await project.view(token)
  const { trail } = await readContent(service.app.services)
  await project.revoke(id)
  await project.revoke(id)
  expect(await project.find(id)).toMatchObject({ state: 'exhausted' })
  expect((await readContent(service.app.services)).trail).toBe(trail)
})

test('the job changes nothing while no share has ended', async () => {
  const { id } = await project.make({ content: 'x' } satisfies Partial<NewShare>)
  await endShares(service.app.services)
  const before = await readContent(service.app.services)
  await endShares(service.app.services)
  expect(describeChanges(before, await readContent(service.app.services))).toEqual([])
  expect(await project.find(id)).toMatchObject({ state: 'active' })
})
