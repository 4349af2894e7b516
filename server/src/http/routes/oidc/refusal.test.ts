/** A refused exchange: admins learn the reason from the audit trail and from `test`, callers learn nothing. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { IdentityVerdict } from '@coffer/contract/oidc'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  createIdentity,
  loopbackAllowed,
  startIssuer,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

let service: TestService
let issuer: TestIssuer
let owner: TestUser
let project: TestProject
const list = '/v1/workspace/main/oidc'

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  issuer = await startIssuer(() => service.app.services.now())
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})
const trust = (body: Readonly<Record<string, unknown>>) =>
  createIdentity(service, owner.session, { issuer: issuer.url, ...body })
const ask = (token: string, path: string) => service.call('GET', path, { token })

async function newest(filter = ''): Promise<AuditEntry | undefined> {
  const path = `/v1/workspace/main/audit?limit=1${filter}`
  const { body } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  return body[0]
}

describe('test', () => {
  const check = async (id: string, token: string, by = owner.session) =>
    service.call<IdentityVerdict>('POST', `${list}/${id}/test`, { token: by, body: { token } })

  test('explains every rule, grants nothing and records nothing', async () => {
    const { id } = await trust({ subject: 'repo:octo-org/*', claims: { ref: ['main', 'release/*'], team: 'core' } })
    const before = await newest()
    const right = await check(id, await issuer.sign({ sub: 'repo:octo-org/a', ref: 'main', team: ['core', 'web'] }))
    expect(right.body.ok).toBe(true)
    expect(right.body.checks.map(({ check }) => check)).toEqual([
      'enabled',
      'form',
      'issuer',
      'algorithm',
      'type',
      'header',
      'signature',
      'expires',
      'notBefore',
      'issuedAt',
      'audience',
      'authorizedParty',
      'subject',
      'claims.ref',
      'claims.team',
    ])
    const wrong = await check(id, await issuer.sign({ sub: 'repo:evil/a', ref: 'dev', aud: 'other', exp: 1 }))
    expect(wrong.body.ok).toBe(false)
    expect(wrong.body.checks.filter(({ ok }) => !ok)).toEqual([
      expect.objectContaining({ check: 'expires', actual: '1970-01-01T00:00:01.000Z' }),
      { check: 'audience', ok: false, expected: 'coffer', actual: 'other' },
      { check: 'subject', ok: false, expected: 'repo:octo-org/*', actual: 'repo:evil/a' },
      { check: 'claims.ref', ok: false, expected: 'main or release/*', actual: 'dev' },
      { check: 'claims.team', ok: false, expected: 'core', actual: 'absent' },
    ])
    expect(await newest()).toEqual(before)
    expect((await ask(owner.session, `${list}/${id}`)).body).toMatchObject({ lastUsedAt: null })
  })

  test('reports a disabled identity, and never calls another issuer', async () => {
    const { id } = await trust({ subject: 'disabled', enabled: false })
    const { body } = await check(id, await issuer.sign({ sub: 'disabled' }))
    expect(body.ok).toBe(false)
    expect(body.checks.filter(({ ok }) => !ok)).toMatchObject([{ check: 'enabled', actual: 'false' }])
    const stranger = await startIssuer(() => service.app.services.now())
    const foreign = await check(id, await stranger.sign({ sub: 'disabled' }))
    expect(foreign.body.checks.find(({ check }) => check === 'issuer')).toMatchObject({
      ok: false,
      expected: issuer.url,
      actual: stranger.url,
    })
    expect(stranger.requests).toEqual([])
    await stranger.stop()
  })

  test('is allowed with a read token of an admin, and with nothing less', async () => {
    const { id } = await trust({ subject: 'asked' })
    const token = await issuer.sign({ sub: 'asked' })
    const read = await createToken(service, owner.session, { permission: 'read' })
    expect((await check(id, token, read.token)).status).toBe(200)
    const narrow = await createToken(service, owner.session, { scope: { projects: [project.id] } })
    expect((await check(id, token, narrow.token)).status).toBe(403)
    const body = { name: 'x' }
    expect((await service.call('PUT', `${list}/${id}`, { token: read.token, body })).status).toBe(403)
  })
})

describe('refused exchanges', () => {
  test('are in the audit trail of the workspace with the reason, which the response does not reveal', async () => {
    // Earlier tests may have used up the entries of this minute.
    service.clock.offsetMs += 60_000
    const identity = await trust({ subject: 'refused', claims: { ref: 'main' } })
    const refused = await tryFederation(service, await issuer.sign({ sub: 'refused', ref: 'dev' }))
    expect(refused).toMatchObject({ status: 401, body: { message: expect.not.stringContaining('ref') } })
    const entry = await newest()
    expect(entry).toMatchObject({
      action: 'LOGIN',
      outcome: 'failure',
      actor: { type: 'anonymous' },
      entity: { type: 'oidc', id: '' },
      after: { issuer: issuer.url, subject: 'refused' },
    })
    const reason = { identity: identity.id, check: 'claims.ref', expected: 'main', actual: 'dev' }
    expect(entry?.after?.reasons).toContainEqual(reason)
  })

  test('are recorded up to twenty a minute; the next entry counts the others', async () => {
    service.clock.offsetMs += 120_000
    const token = await issuer.sign({ sub: 'flooding' })
    const before = (await newest())?.sequence ?? 0
    await Promise.all(Array.from({ length: 50 }, () => tryFederation(service, token)))
    expect(((await newest())?.sequence ?? 0) - before).toBe(20)
    service.clock.offsetMs += 60_000
    await tryFederation(service, await issuer.sign({ sub: 'flooding' }))
    expect((await newest())?.after).toMatchObject({ unrecorded: 30 })
  })

  test('record nothing in a workspace without identities, and get the same response there', async () => {
    await service.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Quiet', slug: 'quiet' } })
    const path = '/v1/workspace/quiet/audit'
    const before = (await ask(owner.session, path)).text
    const token = await issuer.sign()
    const quiet = await tryFederation(service, token, 'quiet')
    const absent = await tryFederation(service, token, 'not-there')
    const here = await tryFederation(service, token)
    expect([quiet.status, absent.status, here.status]).toEqual([401, 401, 401])
    expect([absent.text, here.text]).toEqual([quiet.text, quiet.text])
    expect((await ask(owner.session, path)).text).toBe(before)
  })
})

test('the exchange is rate limited by client address, before the token is examined', async () => {
  const limited = await startService({ ...loopbackAllowed, COFFER_RATE_LIMIT: '4' })
  try {
    const { session } = await registerOwner(limited)
    await createIdentity(limited, session, { issuer: issuer.url, subject: 'somebody' })
    const token = await issuer.sign({ iat: 1, exp: 4_000_000_000 })
    const answers = [await tryFederation(limited, token), await tryFederation(limited, 'none')]
    for (const each of ['none', token]) answers.push(await tryFederation(limited, each))
    expect(answers.map(({ status }) => status)).toEqual([200, 401, 429, 429])
    expect(answers[0]?.headers.get('ratelimit-remaining')).toBe('1')
  } finally {
    await limited.stop()
  }
})

test('checking a token with long lists against many rules yields to other requests', async () => {
  const crowded = await startService({ ...loopbackAllowed, COFFER_RATE_LIMIT: '0' })
  const apart = await startIssuer()
  const { session } = await registerOwner(crowded)
  const names = Array.from({ length: 20 }, (_, n) => `c${n}`)
  const patterns = Array.from({ length: 20 }, (_, n) => `*z${n}*`)
  const rules = Object.fromEntries(names.map((name) => [name, patterns]))
  for (let count = 0; count < 100; count++) {
    await createIdentity(crowded, session, { issuer: apart.url, claims: rules })
  }
  const texts = (nth: number) => Array.from({ length: 100 }, (_, n) => (nth * 100 + n).toString(36))
  const token = await apart.sign(Object.fromEntries(names.map((name, nth) => [name, texts(nth)])))
  const yields = vi.spyOn(globalThis, 'setImmediate')
  expect((await tryFederation(crowded, token)).status).toBe(401)
  expect(yields.mock.calls.length).toBeGreaterThan(90)
  yields.mockRestore()
  await crowded.stop()
  await apart.stop()
})
