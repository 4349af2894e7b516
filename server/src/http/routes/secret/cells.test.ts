/** view=cells: what a grid of environments shows without any value. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Secret, SecretRow } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
const canary = 'canary-of-the-cells'
const ref = (name: string) => `\${${name}}`

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { SAME: canary, PARTLY: `${canary} 1`, EMPTY: '' })
  await project.set('staging', { SAME: canary, PARTLY: `${canary} 2`, EMPTY: '' })
  await project.set('production', { SAME: canary, PARTLY: `${canary} 1`, EMPTY: 'x' })
  const text = `${ref('SAME')}:${ref('staging.PARTLY')} ${ref('SAME')} $${ref('ESCAPED')} ${canary}`
  await project.set('development', { REFERRING: text })
  await project.must('PUT', '/secret/SAME/value', { environmentId: 'development', value: canary, isPersonal: true })
})
afterAll(() => service.stop())

const list = (query = '', token = owner.session, headers: Record<string, string> = {}) =>
  service.call<Secret[]>('GET', `${project.root}/secret?view=cells${query}`, { token, headers })
const rowsOf = (secrets: Secret[], name: string): SecretRow[] => secrets.find((one) => one.name === name)?.values ?? []
const numbersOf = (secrets: Secret[], name: string) => rowsOf(secrets, name).map(({ same }) => same)

async function comparisons(): Promise<AuditEntry[]> {
  const path = `/v1/workspace/main/audit?limit=200&action=COMPARE&project=${project.slug}`
  return (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body
}

test('rows have everything but the value: version, emptiness, references, and which of them are equal', async () => {
  const { status, body, text } = await list()
  expect(status).toBe(200)
  expect(body.map(({ name }) => name)).toEqual(['EMPTY', 'PARTLY', 'REFERRING', 'SAME'])
  expect(text).not.toContain('canary')
  expect(rowsOf(body, 'REFERRING')).toEqual([
    {
      environmentId: project.idOf('development'),
      isPersonal: false,
      version: 1,
      updatedAt: expect.any(String),
      isEmpty: false,
      references: ['SAME', 'staging.PARTLY'],
      same: 1,
    },
  ])
  const [development, personal, ...others] = numbersOf(body, 'SAME')
  expect(rowsOf(body, 'SAME').map(({ isPersonal }) => isPersonal)).toEqual([false, true, false, false])
  expect(new Set([development, personal, ...others]).size).toBe(1)
  const [one, two, three] = numbersOf(body, 'PARTLY')
  expect(one).toBe(three)
  expect(one).not.toBe(two)
  expect(rowsOf(body, 'EMPTY').map(({ isEmpty }) => isEmpty)).toEqual([true, true, false])
  // Every secret counts anew: equal numbers of two secrets mean nothing.
  expect(Math.max(...body.flatMap(({ values }) => values.map(({ same }) => same ?? 0)))).toBe(2)
})

test('one secret is read in the same form', async () => {
  const { status, body, text } = await service.call<Secret>('GET', `${project.root}/secret/PARTLY?view=cells`, {
    token: owner.session,
  })
  expect(status).toBe(200)
  expect(new Set(body.values.map(({ same }) => same)).size).toBe(2)
  expect(text).not.toContain('canary')
})

test('only rows within the scope of the caller are compared', async () => {
  const scope = { environments: [project.idOf('development'), project.idOf('staging')] }
  const { token } = await createToken(service, owner.session, { scope })
  const { body } = await list('', token)
  expect(rowsOf(body, 'PARTLY').map(({ environmentId }) => environmentId)).toEqual(scope.environments)
  // A token sees no personal row.
  expect(rowsOf(body, 'SAME')).toHaveLength(2)
})

test('resolve=true resolves nothing, and an unknown view is refused', async () => {
  const { text, body } = await list('&resolve=true&onUnresolved=error')
  expect(text).not.toContain('canary')
  expect(rowsOf(body, 'REFERRING')[0]?.references).toEqual(['SAME', 'staging.PARTLY'])
  const refused = await service.call('GET', `${project.root}/secret?view=values`, { token: owner.session })
  expect(refused).toMatchObject({ status: 400, body: { message: 'view: must be one of: full, keys, cells.' } })
})

test('each request is recorded as one comparison with the names of the keys, from the cache too', async () => {
  const before = (await comparisons()).length
  const views = (await project.views()).length
  const first = await list('&q=PARTLY')
  await list('&q=PARTLY')
  const entries = await comparisons()
  expect(entries).toHaveLength(before + 2)
  expect(entries[0]).toMatchObject({
    action: 'COMPARE',
    outcome: 'success',
    entity: { type: 'secrets', id: project.id },
    projectId: project.id,
    after: { keys: ['PARTLY'], environments: ['development', 'staging', 'production'] },
  })
  expect(JSON.stringify(entries)).not.toContain('canary')
  expect(await project.views()).toHaveLength(views)
  // Somebody who has the answer learns nothing new from a 304, as with reads of values.
  const etag = first.headers.get('etag') ?? ''
  expect((await list('&q=PARTLY', owner.session, { 'if-none-match': etag })).status).toBe(304)
  expect(await comparisons()).toHaveLength(before + 2)
})

test('counts against the rate limit like a read', async () => {
  const limited = await startService({ COFFER_RATE_LIMIT: '8' })
  try {
    const { session } = await registerOwner(limited)
    const place = await createSecretProject(limited, session)
    await place.set('development', { A: '1' })
    const ask = (view: string) => limited.call('GET', `${place.root}/secret?view=${view}`, { token: session })
    const left = async (view: string) => Number((await ask(view)).headers.get('ratelimit-remaining'))
    const first = await left('full')
    expect(await left('cells')).toBe(first - 1)
  } finally {
    await limited.stop()
  }
})

test('a change of one value changes the cells and their ETag at once', async () => {
  const before = await list('&q=PARTLY')
  await project.set('staging', { PARTLY: `${canary} 1` })
  const after = await list('&q=PARTLY')
  expect(new Set(numbersOf(after.body, 'PARTLY')).size).toBe(1)
  expect(after.headers.get('etag')).not.toBe(before.headers.get('etag'))
})

test('a long list lets others through, and numbers each secret on its own', async () => {
  const large = await createSecretProject(service, owner.session)
  const names = Array.from({ length: 2_600 }, (_, at) => `KEY_${String(at).padStart(5, '0')}`)
  for (const environment of ['development', 'staging', 'production']) {
    const values = names.map((key, at) => ({
      key,
      value: at % 2 === 0 || environment === 'staging' ? canary : 'other',
    }))
    await large.must('POST', '/secret', { environments: [environment], secrets: values })
  }
  const { body } = await service.call<Secret[]>('GET', `${large.root}/secret?view=cells`, { token: owner.session })
  expect(body).toHaveLength(names.length)
  expect(body.filter(({ values }) => new Set(values.map(({ same }) => same)).size === 1)).toHaveLength(1_300)
})
