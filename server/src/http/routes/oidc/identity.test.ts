/** Identities of external issuers: creation, changes, listing and limits. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Identity, IdentityPreset } from '@coffer/contract/oidc'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createIdentity, loopbackAllowed, startIssuer, type TestIssuer } from '../../../../../test/issuer.ts'

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
  const body = { environments: project.environments.map(({ id }) => id), secrets: [{ key: 'KEY', value: 'shared' }] }
  await service.call('POST', '/v1/workspace/main/project/api/secret', { token: owner.session, body })
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})

const environment = (index = 0) => project.environments[index]?.id ?? ''
const trust = (body: Readonly<Record<string, unknown>>) =>
  createIdentity(service, owner.session, { issuer: issuer.url, ...body })
const change = (id: string, body: unknown) =>
  service.call<Identity>('PUT', `${list}/${id}`, { token: owner.session, body })
const ask = (token: string, path: string) => service.call('GET', path, { token })

async function newest(filter = ''): Promise<AuditEntry | undefined> {
  const path = `/v1/workspace/main/audit?limit=1${filter}`
  const { body } = await service.call<AuditEntry[]>('GET', path, { token: owner.session })
  return body[0]
}

describe('identities', () => {
  test('are created, listed, read, changed and deleted, each with its entry in the audit trail', async () => {
    const scope = { environments: [environment()] }
    const body = { name: 'build', subject: 'crud', claims: { ref: ['main', 'release/*'] }, scope }
    const made = await trust(body)
    const full = { all: false, teams: [], projects: [], environments: [environment()] }
    const shown = { ...body, issuer: issuer.url, audience: 'coffer', permission: 'read', scope: full, enabled: true }
    expect(made).toMatchObject({ ...shown, lastUsedAt: null })
    expect(await newest()).toMatchObject({
      action: 'CREATE',
      entity: { type: 'oidc', id: made.id, name: 'build' },
      actor: { type: 'user', id: owner.id },
      after: shown,
    })
    expect((await ask(owner.session, list)).body).toContainEqual(made)
    expect((await ask(owner.session, `${list}/${made.id.toUpperCase()}`)).body).toEqual(made)

    const changed = await change(made.id, { subject: null, claims: { ref: 'main' }, permission: 'read-write' })
    expect(changed.body).toMatchObject({ success: true, subject: null, claims: { ref: 'main' }, name: 'build' })
    expect(await newest()).toMatchObject({
      action: 'UPDATE',
      entity: { type: 'oidc', id: made.id },
      before: { subject: 'crud', claims: body.claims, permission: 'read' },
      after: { subject: null, claims: { ref: 'main' }, permission: 'read-write' },
    })
    expect(Object.keys((await newest())?.after ?? {})).toEqual(['subject', 'claims', 'permission'])

    const removed = await service.call('DELETE', `${list}/${made.id}`, { token: owner.session })
    expect(removed).toMatchObject({ status: 200, body: { success: true } })
    expect(await newest()).toMatchObject({ action: 'DELETE', before: { claims: { ref: 'main' } } })
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const sent = method === 'PUT' ? { name: 'x' } : undefined
      const gone = await service.call(method, `${list}/${made.id}`, { token: owner.session, body: sent })
      expect(gone.status).toBe(404)
    }
  })

  test('accept their scope back as it is shown, although a part of it was deleted', async () => {
    const doomed = await createProject(service, owner.session, 'doomed')
    const made = await trust({ name: 'kept', subject: 'kept', scope: { projects: [doomed.id, project.id] } })
    await service.call('DELETE', '/v1/workspace/main/project/doomed', { token: owner.session })
    const { body: shown } = await service.call<Identity>('GET', `${list}/${made.id}`, { token: owner.session })
    expect(shown.scope.projects).toContain(doomed.id)
    const changed = await change(made.id, { audience: 'other', scope: shown.scope })
    const left = { all: false, teams: [], projects: [project.id], environments: [] }
    expect(changed).toMatchObject({ status: 200, body: { audience: 'other', scope: left } })
    expect((await change(made.id, { scope: shown.scope })).status).toBe(400)
  })

  const good = {
    name: 'n',
    issuer: 'https://issuer.example.com',
    audience: 'a',
    subject: 's',
    permission: 'read',
    scope: { all: true },
  }
  test.each([
    ['no subject and no claims', { subject: undefined }, 'subject: '],
    ['a null subject and no claims', { subject: null }, 'subject: '],
    ['empty claims and no subject', { subject: undefined, claims: {} }, 'subject: '],
    ['a subject that matches everything', { subject: '**' }, 'subject: '],
    ['claims that match everything', { subject: undefined, claims: { ref: '*', x: ['main', '*'] } }, 'claims: '],
    ['an empty subject', { subject: '' }, 'subject: '],
    ['an empty list for a claim', { claims: { ref: [] } }, 'claims.ref: must not be empty.'],
    ['an empty string in the list of a claim', { claims: { ref: ['main', ''] } }, 'claims.ref.1: must not be empty.'],
    [
      'a number for a claim',
      { claims: { 'https://example.com/x': 1 } },
      'claims.https://example.com/x: must be a string or an array.',
    ],
    ['a nested list for a claim', { claims: { ref: [['main']] } }, 'claims.ref.0: must be a string.'],
    ['a claim without a name', { claims: { '': 'x' } }, 'claims: '],
    ['a name with a control character', { claims: { 'a\u0000b': 'x' } }, 'claims: '],
    ['a name that is too long', { claims: { [`n${'x'.repeat(200)}`]: 'x' } }, 'claims: '],
    [
      'too many claims',
      { claims: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`c${n}`, 'x'])) },
      'claims: ',
    ],
    ['too many values', { claims: { ref: Array.from({ length: 21 }, (_, n) => `v${n}`) } }, 'claims.ref: '],
    [
      'rules that are too long in total',
      { claims: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`c${n}`, 'x'.repeat(200)])) },
      'claims: must not have more than 4096 characters',
    ],
    ['an issuer that is not a URL', { issuer: 'issuer.example.com' }, 'issuer: '],
    ['an issuer of another scheme', { issuer: 'ftp://issuer.example.com' }, 'issuer: '],
    ['an issuer with a query', { issuer: 'https://issuer.example.com/?a=b' }, 'issuer: '],
    ['an issuer with a fragment', { issuer: 'https://issuer.example.com/#a' }, 'issuer: '],
    ['an issuer with a password', { issuer: 'https://user:word@issuer.example.com' }, 'issuer: '],
    ['an issuer without a host', { issuer: 'https://[' }, 'issuer: '],
    ['an issuer that is too long', { issuer: `https://issuer.example.com/${'x'.repeat(500)}` }, 'issuer: '],
    ['no audience', { audience: undefined }, 'audience: '],
    ['an empty audience', { audience: '' }, 'audience: '],
    ['an unknown permission', { permission: 'admin' }, 'permission: '],
    ['a scope that grants nothing', { scope: {} }, 'scope: '],
    ['a scope with an unknown project', { scope: { projects: ['01890000-0000-7000-8000-00000000dead'] } }, 'scope: '],
    ['an unknown field', { colour: 'red' }, 'colour: '],
    ['a string as enabled', { enabled: 'yes' }, 'enabled: '],
  ])('are refused with %s, and the error names the field', async (_what, wrong, start) => {
    const before = (await ask(owner.session, list)).text
    const body = { ...good, ...wrong }
    const created = await service.call<{ message: string }>('POST', list, { token: owner.session, body })
    expect(created.status, created.text).toBe(400)
    expect(created.body.message.slice(0, start.length)).toBe(start)
    expect((await ask(owner.session, list)).text).toBe(before)
  })

  test('keep their last rule: an update that removes it is refused as a whole', async () => {
    const { id } = await trust({ subject: 'last rule' })
    for (const body of [{ subject: null }, { subject: '*' }, { subject: null, claims: { ref: '*' } }, {}]) {
      expect((await change(id, body)).status).toBe(400)
    }
    expect((await ask(owner.session, `${list}/${id}`)).body).toMatchObject({ subject: 'last rule', claims: {} })
  })

  test('have the same length limit in an update', async () => {
    const { id } = await trust({ subject: 'short rules' })
    const claims = { ref: Array.from({ length: 20 }, (_, n) => `${n}${'x'.repeat(200)}`) }
    expect((await change(id, { claims })).status).toBe(400)
    expect((await change(id, { claims: { ref: claims.ref.slice(0, 19) } })).status).toBe(200)
  })

  test('are refused with a plain http issuer if the operator allows no private host', async () => {
    const strict = await startService()
    try {
      const { session } = await registerOwner(strict)
      const body = { ...good, issuer: 'http://issuer.example.com' }
      const refused = await strict.call<{ message: string }>('POST', list, { token: session, body })
      expect(refused.status).toBe(400)
      expect(refused.body.message).toMatch(/^issuer: must start with https:/)
    } finally {
      await strict.stop()
    }
  })

  test('are limited to 200 in a workspace', async () => {
    const body = { name: 'Full', slug: 'full' }
    await service.call('POST', '/v1/workspace', { token: owner.session, body })
    const answers = await Promise.all(
      Array.from({ length: 210 }, () =>
        service.call('POST', '/v1/workspace/full/oidc', { token: owner.session, body: good }),
      ),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(200)
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(10)
  })

  test('can be created from every preset', async () => {
    const { body } = await service.call<IdentityPreset[]>('GET', `${list}/preset`, { token: owner.session })
    expect(body.map(({ id }) => id)).toEqual(
      expect.arrayContaining(['github-actions', 'gitlab', 'kubernetes', 'terraform-cloud', 'generic']),
    )
    const github = body.find(({ id }) => id === 'github-actions')
    expect(github?.claims).toMatchObject({ repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID' })
    for (const { id: _id, description: _text, ...form } of body) {
      const identity = await createIdentity(service, owner.session, { ...form, enabled: false })
      expect(identity).toMatchObject(form)
      await service.call('DELETE', `${list}/${identity.id}`, { token: owner.session })
    }
  })

  test('cannot be listed by a scoped admin, a developer or a member', async () => {
    const { id: workspaceId } = (await ask(owner.session, '/v1/workspace/main')).body as { id: string }
    const scope = { all: false, teams: [], projects: [project.id], environments: [] }
    for (const [index, membership] of [
      { role: 'admin', scope } as const,
      { role: 'developer' } as const,
      { role: 'member' } as const,
    ].entries()) {
      const user = await addUser(service, `nobody${index}@example.com`, { workspaceId, ...membership })
      expect((await ask(user.session, list)).status).toBe(403)
    }
  })
})
