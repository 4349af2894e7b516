// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are what is copied and restored here.
import type { AuditVerdict } from '@coffer/contract/audit'
import type { Diff, Promoted, Revision, SecretVersion, SecretVersionValue } from '@coffer/contract/history'
import type { RevisionResults, Secret } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Answer,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject, type Values } from '../../../../test/secret-project.ts'
import { times } from '../../../../test/tier.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
})

const development = '?environmentId=development'
const versionsOf = (key: string, query = '') =>
  project.must<SecretVersion[]>('GET', `/secret/${key}/version${development}${query}`)
const readVersion = (key: string, version: number) =>
  project.must<SecretVersionValue>('GET', `/secret/${key}/version/${version}${development}`)
const restoreVersion = (key: string, version: number, environmentId = 'development') =>
  project.ask<{ message: string; version: number }>('POST', `/secret/${key}/version/${version}/restore`, {
    environmentId,
  })
const restoreRevision = (environment: string, revision: number, body: unknown = {}) =>
  project.must<RevisionResults>('POST', `/environment/${project.idOf(environment)}/revision/${revision}/restore`, body)
const diff = (from: string, to: string, more = '') =>
  project.must<Diff>('GET', `/secret/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}${more}`)
const promote = (body: Record<string, unknown>, to = 'staging') =>
  project.ask<Promoted & { message: string }>('POST', `/environment/${project.idOf(to)}/promote`, {
    from: 'development',
    ...body,
  })
const countsOf = async (environment: string) => {
  const list = await project.must<{ name: string; totalSecrets: number }[]>('GET', '/environment')
  return { totalSecrets: list.find(({ name }) => name === environment)?.totalSecrets }
}
const changesOf = (revision: Revision | undefined) =>
  (revision?.changes ?? []).toSorted((a, b) => (a.key < b.key ? -1 : 1))

/** Every cursor that is given out is followed. */
async function readPages<Item>(path: string, limit: number): Promise<Item[][]> {
  const pages: Item[][] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const answer: Answer<Item[]> = await project.ask<Item[]>(
      'GET',
      `${path}limit=${limit}${cursor && `&cursor=${cursor}`}`,
    )
    expect(answer.status, answer.text).toBe(200)
    pages.push(answer.body)
    cursor = answer.headers.get('x-next-cursor')
  }
  return pages
}

describe('versions', () => {
  test('come newest first, with who, when and why, and removals are marked', async () => {
    await project.set('development', { KEY: 'one' }, { message: 'first' })
    await project.must('PUT', '/secret/KEY/value', { environmentId: 'development', value: 'two', message: 'second' })
    await project.remove('development', 'KEY')
    await project.set('development', { KEY: 'four' })
    const versions = await versionsOf('KEY')
    expect(versions.map(({ version, message, deleted }) => ({ version, message, deleted }))).toEqual([
      { version: 4, message: '', deleted: false },
      { version: 3, message: '', deleted: true },
      { version: 2, message: 'second', deleted: false },
      { version: 1, message: 'first', deleted: false },
    ])
    for (const { createdBy, createdAt } of versions) {
      expect(createdBy).toBe(owner.email)
      expect(Math.abs(Date.parse(createdAt) - service.app.services.now())).toBeLessThan(60_000)
    }
  })

  test('come in pages, each version once', async () => {
    for (let index = 1; index <= 5; index++) await project.set('development', { KEY: `value ${index}` })
    const pages = await readPages<SecretVersion>(`/secret/KEY/version${development}&`, 2)
    expect(pages.map((page) => page.map(({ version }) => version))).toEqual([[5, 4], [3, 2], [1]])
    const farCursor = Buffer.from(String(Number.MAX_SAFE_INTEGER)).toString('base64url')
    expect(await versionsOf('KEY', `&cursor=${farCursor}`)).toHaveLength(5)
    expect((await project.ask('GET', `/secret/KEY/version${development}&cursor=nonsense`)).status).toBe(400)
  })

  test('belong to one environment, and a personal value makes none', async () => {
    await project.allowPersonal('development')
    await project.set('development', { KEY: 'here' })
    await project.set('staging', { KEY: 'there' })
    await project.set('staging', { KEY: 'there, again' })
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/KEY/value', personal)
    expect(await versionsOf('KEY')).toHaveLength(1)
    expect((await readVersion('KEY', 1)).value).toBe('here')
  })

  test('an equal value makes none', async () => {
    await project.set('development', { KEY: 'same' })
    await project.set('development', { KEY: 'same' })
    expect(await versionsOf('KEY')).toHaveLength(1)
  })

  test('one has its value, which is audited; a removal has none, and nothing is audited', async () => {
    await project.set('development', { KEY: 'one' })
    await project.set('development', { KEY: 'two' })
    await project.remove('development', 'KEY')
    expect(await readVersion('KEY', 1)).toMatchObject({ version: 1, value: 'one', deleted: false })
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view).toMatchObject({
      entity: { type: 'secret', name: 'KEY' },
      environmentId: project.idOf('development'),
      after: { keys: ['KEY'], version: 1 },
    })
    const removal = await readVersion('KEY', 3)
    expect(removal).toMatchObject({ version: 3, deleted: true })
    expect(removal).not.toHaveProperty('value')
    await versionsOf('KEY')
    expect(await project.views()).toHaveLength(1)
  })

  test('survive a rename of the secret', async () => {
    await project.set('development', { OLD: 'one' })
    await project.rename('OLD', 'NEW')
    await project.set('development', { NEW: 'two' })
    expect((await versionsOf('NEW')).map(({ version }) => version)).toEqual([2, 1])
    expect((await readVersion('NEW', 1)).value).toBe('one')
  })

  test('restoring one makes its value the current one, as a new version and a new revision', async () => {
    await project.set('development', { KEY: 'one', OTHER: 'stays' })
    await project.set('development', { KEY: 'two' })
    expect((await restoreVersion('KEY', 1)).body).toEqual({ success: true, version: 3 })
    expect(await project.state('development')).toEqual({ KEY: 'one', OTHER: 'stays' })
    expect((await readVersion('KEY', 3)).value).toBe('one')
    const [newest] = await project.revisions('development')
    expect(newest).toMatchObject({ revision: 3, changes: [{ key: 'KEY', action: 'updated' }] })
  })

  test('restoring one after the value was removed brings it back', async () => {
    await project.set('development', { KEY: 'one' })
    await project.remove('development', 'KEY')
    expect((await restoreVersion('KEY', 1)).body).toEqual({ success: true, version: 3 })
    expect(await project.state('development')).toEqual({ KEY: 'one' })
  })

  test('restoring the current one changes nothing', async () => {
    await project.set('development', { KEY: 'one' })
    expect((await restoreVersion('KEY', 1)).body).toEqual({ success: true, version: 1 })
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test('a removal cannot be restored', async () => {
    await project.set('development', { KEY: 'one' })
    await project.remove('development', 'KEY')
    const answer = await restoreVersion('KEY', 2)
    expect(answer.status).toBe(409)
    expect(await project.state('development')).toEqual({})
    expect(await versionsOf('KEY')).toHaveLength(2)
  })

  test('what does not exist is not found: secret, environment, version, or a value that never was here', async () => {
    await project.set('development', { KEY: 'one', TRASHED: 'two' })
    await project.must('DELETE', '/secret/TRASHED')
    const paths = [
      `/secret/NOTHING/version${development}`,
      `/secret/TRASHED/version${development}`,
      '/secret/KEY/version?environmentId=nowhere',
      '/secret/KEY/version?environmentId=staging',
      `/secret/KEY/version/2${development}`,
      '/secret/KEY/version/1?environmentId=staging',
    ]
    for (const path of paths) expect((await project.ask('GET', path)).status, path).toBe(404)
    expect((await restoreVersion('KEY', 2)).status).toBe(404)
    expect((await restoreVersion('KEY', 1, 'staging')).status).toBe(404)
    expect((await restoreVersion('NOTHING', 1)).status).toBe(404)
  })

  test.each(['/version', '/version/0?environmentId=development', '/version/one?environmentId=development'])(
    'refuses the malformed %s',
    async (path) => {
      await project.set('development', { KEY: 'one' })
      expect((await project.ask('GET', `/secret/KEY${path}`)).status).toBe(400)
    },
  )

  test('a read-only token reads them and restores none, and only in its scope', async () => {
    await project.set('development', { KEY: 'one' })
    await project.set('staging', { KEY: 'two' })
    const scope = { environments: [project.idOf('development')] }
    const { token } = await createToken(service, owner.session, { permission: 'read', scope })
    const as = (method: string, path: string, body?: unknown) => project.ask(method, path, body, token)
    expect((await as('GET', `/secret/KEY/version/1${development}`)).status).toBe(200)
    expect((await as('GET', '/secret/KEY/version/1?environmentId=staging')).status).toBe(404)
    const body = { environmentId: 'development' }
    expect((await as('POST', '/secret/KEY/version/1/restore', body)).status).toBe(403)
    const revisions = `/environment/${project.idOf('development')}/revision`
    expect((await as('GET', revisions)).status).toBe(200)
    expect((await as('POST', `${revisions}/1/restore`, {})).status).toBe(403)
    expect((await as('GET', `/environment/${project.idOf('staging')}/revision`)).status).toBe(404)
    expect((await as('GET', '/secret/diff?from=development&to=staging')).status).toBe(404)
    const promotion = { from: 'development' }
    expect((await as('POST', `/environment/${project.idOf('development')}/promote`, promotion)).status).toBe(403)
  })
})

describe('revisions', () => {
  test('every write is one, with what it did to which key, by whom and why', async () => {
    await project.set('development', { A: '1', B: '2' }, { message: 'begin' })
    await project.set('development', { A: '1', B: '3', C: '4' })
    await project.must('PUT', '/secret/A', {
      name: 'A',
      values: [{ environmentId: 'development', value: '5', isPersonal: false }],
    })
    await project.must('PUT', '/secret/A/value', { environmentId: 'development', value: '6' })
    await project.remove('development', 'C')
    await project.rename('A', 'Z')
    await project.must('DELETE', '/secret/B')
    await project.must('POST', '/secret/B/restore')
    const revisions = await project.revisions('development')
    expect(revisions.map(({ revision }) => revision)).toEqual([8, 7, 6, 5, 4, 3, 2, 1])
    expect(revisions.toReversed().map(changesOf)).toEqual([
      [
        { key: 'A', action: 'created' },
        { key: 'B', action: 'created' },
      ],
      [
        { key: 'B', action: 'updated' },
        { key: 'C', action: 'created' },
      ],
      [{ key: 'A', action: 'updated' }],
      [{ key: 'A', action: 'updated' }],
      [{ key: 'C', action: 'deleted' }],
      [{ key: 'Z', action: 'renamed', from: 'A' }],
      [{ key: 'B', action: 'deleted' }],
      [{ key: 'B', action: 'created' }],
    ])
    expect(revisions.at(-1)).toMatchObject({ message: 'begin', createdBy: owner.email })
  })

  test('a bulk create is one of each environment that it writes to, and of no other', async () => {
    const secrets = Array.from({ length: 30 }, (_, index) => ({ key: `KEY_${index}`, value: `${index}` }))
    await project.must('POST', '/secret', { environments: ['development', 'staging'], secrets })
    for (const environment of ['development', 'staging']) {
      const revisions = await project.revisions(environment)
      expect(revisions).toHaveLength(1)
      expect(revisions[0]?.changes).toHaveLength(30)
    }
    expect(await project.revisions('production')).toEqual([])
  })

  test('a batch with renames is one', async () => {
    await project.set('development', { A: '1', B: '2', C: '3' })
    const answer = await project.must<RevisionResults>('POST', '/secret/batch', {
      environmentId: 'development',
      message: 'tidy',
      operations: [
        { op: 'rename', key: 'A', to: 'X' },
        { op: 'set', key: 'B', value: '4' },
        { op: 'delete', key: 'C' },
        { op: 'set', key: 'X', value: '5' },
      ],
    })
    expect(answer.revision).toBe(2)
    const [newest, ...others] = await project.revisions('development')
    expect(others).toHaveLength(1)
    expect(newest).toMatchObject({ revision: 2, message: 'tidy' })
    expect(newest?.changes).toHaveLength(4)
    expect(newest?.changes).toEqual(
      expect.arrayContaining([
        { key: 'X', action: 'renamed', from: 'A' },
        { key: 'X', action: 'updated' },
        { key: 'B', action: 'updated' },
        { key: 'C', action: 'deleted' },
      ]),
    )
    expect(await project.state('development')).toEqual({ B: '4', X: '5' })
  })

  test('a batch can swap two names by way of a third', async () => {
    await project.set('development', { A: '1', B: '2' })
    const operations = [
      { op: 'rename', key: 'A', to: 'FREE' },
      { op: 'rename', key: 'B', to: 'A' },
      { op: 'rename', key: 'FREE', to: 'B' },
    ]
    await project.must('POST', '/secret/batch', { environmentId: 'development', operations })
    expect(await project.state('development')).toEqual({ A: '2', B: '1' })
    expect(await project.revisions('development')).toHaveLength(2)
    await restoreRevision('development', 1)
    expect(await project.state('development')).toEqual({ A: '1', B: '2' })
    await restoreRevision('development', 2)
    expect(await project.state('development')).toEqual({ A: '2', B: '1' })
  })

  test('a rename that would make a value refer back to itself is refused, and makes none', async () => {
    await project.set('development', { A: '${B}', C: '${A}' })
    const renamed = await project.ask('PUT', '/secret/C', { name: 'B', values: [] })
    expect(renamed.status).toBe(409)
    const operations = [{ op: 'rename', key: 'C', to: 'B' }]
    const batch = await project.ask('POST', '/secret/batch', { environmentId: 'development', operations })
    expect(batch.status).toBe(409)
    expect(await project.state('development')).toEqual({ A: '${B}', C: '${A}' })
    expect(await project.revisions('development')).toHaveLength(1)
  })

  describe('a rename that would make a circle', () => {
    const rename = { op: 'rename', key: 'A', to: 'B' }
    const batch = (...operations: object[]) =>
      ['POST', '/secret/batch', { environmentId: 'development', operations: [rename, ...operations] }] as const
    const update = (...values: object[]) => ['PUT', '/secret/A', { name: 'B', values }] as const
    const plain = { environmentId: 'development', value: 'plain' }

    beforeEach(async () => {
      await project.set('development', { A: '${X}', X: '${B}' })
    })

    test.each([
      ['the value is replaced', update(plain), { B: 'plain', X: '${B}' }],
      ['the value is replaced in a batch', batch({ op: 'set', key: 'B', value: 'plain' }), { B: 'plain', X: '${B}' }],
      ['what it leads to is replaced', batch({ op: 'set', key: 'X', value: 'plain' }), { B: '${X}', X: 'plain' }],
      ['what it leads to is deleted', batch({ op: 'delete', key: 'X' }), { B: '${X}' }],
      ['it is renamed once more', batch({ op: 'rename', key: 'B', to: 'C' }), { C: '${X}', X: '${B}' }],
      ['what it leads to is renamed', batch({ op: 'rename', key: 'X', to: 'Y' }), { B: '${X}', Y: '${B}' }],
    ])('goes through where %s by the same request', async (_what, [method, path, body], after) => {
      await project.must(method, path, body)
      expect(await project.state('development')).toEqual(after)
    })

    test.each([
      ['the value is replaced by an equal one', update({ ...plain, value: '${X}' })],
      ['the value is replaced by one that leads there too', update({ ...plain, value: 'see ${X}' })],
      ['the value is replaced in another environment', update({ ...plain, environmentId: 'staging' })],
      ['only a value of one’s own is plain', update({ ...plain, isPersonal: true })],
      ['something else is deleted', batch({ op: 'delete', key: 'ELSE' })],
      ['something else is renamed', batch({ op: 'rename', key: 'ELSE', to: 'OTHER' })],
      ['what it leads to is set to lead there again', batch({ op: 'set', key: 'X', value: '-${B}' })],
    ])('is refused where %s', async (_what, [method, path, body]) => {
      await project.allowPersonal('development')
      await project.set('development', { ELSE: '1' })
      const before = { development: await project.state('development'), staging: await project.state('staging') }
      const dryRun = method === 'POST' ? [await project.ask(method, path, { ...body, dryRun: true })] : []
      for (const answer of [...dryRun, await project.ask(method, path, body)]) {
        expect(answer.status, answer.text).toBe(409)
        expect(answer.body.message).toMatch(/reference cycle/)
      }
      expect(await project.state('development')).toEqual(before.development)
      expect(await project.state('staging')).toEqual(before.staging)
      expect(await project.revisions('development')).toHaveLength(2)
    })

    test('is refused where it is one in another environment, too, and only the first is mended', async () => {
      await project.set('staging', { A: '${X}', X: '${B}' })
      const [method, path, body] = update(plain)
      expect((await project.ask(method, path, body)).status).toBe(409)
      await project.must(...update(plain, { ...plain, environmentId: 'staging' }))
      expect(await project.state('staging')).toEqual({ B: 'plain', X: '${B}' })
    })
  })

  test('an import, a promotion and a restore are one each', async () => {
    const content = 'A=1\nB=2\nC=3\n'
    await project.must('POST', '/secret/import', { environmentId: 'staging', format: 'dotenv', content })
    await project.set('development', { A: '10', B: '20', D: '40' })
    expect((await promote({})).status).toBe(200)
    await restoreRevision('staging', 1)
    const revisions = await project.revisions('staging')
    expect(revisions.map(({ revision, message }) => [revision, message])).toEqual([
      [3, 'restored revision 1'],
      [2, 'promoted from development'],
      [1, ''],
    ])
    expect(revisions.map(({ changes }) => changes.length)).toEqual([3, 3, 3])
  })

  test('a rename is one of every environment in which the secret has a value', async () => {
    await project.set('development', { A: '1' })
    await project.set('staging', { A: '2' })
    await project.set('production', { B: '3' })
    await project.rename('A', 'Z')
    for (const environment of ['development', 'staging']) {
      const [newest] = await project.revisions(environment)
      expect(newest).toMatchObject({ revision: 2, changes: [{ key: 'Z', action: 'renamed', from: 'A' }] })
    }
    expect(await project.revisions('production')).toHaveLength(1)
  })

  test('a rename and new values in one request are one', async () => {
    await project.set('development', { A: '1' })
    const values = [{ environmentId: 'development', value: '2', isPersonal: false }]
    await project.must('PUT', '/secret/A', { name: 'Z', values })
    const [newest, ...others] = await project.revisions('development')
    expect(others).toHaveLength(1)
    expect(newest?.changes).toEqual(
      expect.arrayContaining([
        { key: 'Z', action: 'renamed', from: 'A' },
        { key: 'Z', action: 'updated' },
      ]),
    )
  })

  test('a rename and a write that take their time have one moment: a millisecond before it stands what stood before', async () => {
    await project.set('development', { A: '1' })
    const begin = service.clock.offsetMs
    let looks = 0
    Object.defineProperty(service.clock, 'offsetMs', { get: () => begin + ++looks, configurable: true })
    const operations = [
      { op: 'rename', key: 'A', to: 'Z' },
      { op: 'set', key: 'Z', value: '2' },
      { op: 'set', key: 'NEW', value: '3' },
    ]
    await project.must('POST', '/secret/batch', { environmentId: 'development', operations })
    Object.defineProperty(service.clock, 'offsetMs', { value: begin + looks, writable: true, configurable: true })
    const [newest] = await project.revisions('development')
    const moment = Date.parse(newest?.createdAt ?? '')
    const at = (ms: number) => `development@${new Date(ms).toISOString()}`
    expect(await diff(at(moment - 1), 'development@1')).toMatchObject({ added: [], removed: [], same: ['A'] })
    expect(await diff(at(moment), 'development@2')).toMatchObject({ added: [], removed: [], same: ['NEW', 'Z'] })
    const { createdAt, values } = await project.must<Secret>('GET', '/secret/NEW')
    expect([createdAt, values[0]?.updatedAt]).toEqual([newest?.createdAt, newest?.createdAt])
  })

  test('personal values, equal values, dry runs and refusals make none', async () => {
    await project.allowPersonal('development')
    await project.set('development', { A: '1' })
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/A/value', personal)
    await project.must('PUT', '/secret/A', { name: 'A', values: [{ ...personal, value: 'mine too' }] })
    await project.must('DELETE', '/secret/A?personal=true&environmentId=development')
    await project.set('development', { A: '1' })
    await project.set('development', { A: '2' }, { dryRun: true })
    const batch = { environmentId: 'development', operations: [{ op: 'rename', key: 'A', to: 'Z' }] }
    await project.must('POST', '/secret/batch', { ...batch, dryRun: true })
    const refused = [
      await project.ask('POST', '/secret', { environments: ['development'], secrets: [{ key: 'A', value: '3' }] }),
      await project.ask('POST', '/secret/batch', {
        environmentId: 'development',
        operations: [
          { op: 'set', key: 'B', value: '1' },
          { op: 'delete', key: 'NOTHING' },
        ],
      }),
    ]
    expect(refused.map(({ status }) => status)).toEqual([409, 404])
    expect(await project.revisions('development')).toHaveLength(1)
    expect(await project.state('development')).toEqual({ A: '1' })
  })

  test('are told by every answer as they stand afterwards, also where nothing was made', async () => {
    const file = (body: object) => ({ environmentId: 'development', format: 'dotenv', mode: 'upsert', ...body })
    const batch = (value: string) => ({ environmentId: 'development', operations: [{ op: 'set', key: 'A', value }] })
    const tell = async (path: string, body: object) =>
      (await project.must<RevisionResults>('POST', path, body)).revision
    const restore = (revision: number) => `/environment/${project.idOf('development')}/revision/${revision}/restore`
    const promoting = `/environment/${project.idOf('development')}/promote`
    expect(await tell('/secret/import', file({ content: 'A=1' }))).toBe(1)
    expect(await tell('/secret/import', file({ content: 'A=2' }))).toBe(2)
    await project.set('staging', { A: '2' })
    for (const [path, body] of [
      ['/secret/import', file({ content: 'A=2' })],
      ['/secret/import', file({ content: 'A=3', dryRun: true })],
      ['/secret/batch', batch('2')],
      ['/secret/batch', { ...batch('3'), dryRun: true }],
      [restore(2), {}],
      [restore(1), { dryRun: true }],
      [promoting, { from: 'staging' }],
      [promoting, { from: 'staging', dryRun: true }],
    ] as const) {
      expect(await tell(path, body), JSON.stringify([path, body])).toBe(2)
    }
    expect(await tell(restore(1), {})).toBe(3)
  })

  test('come in pages, each revision once and whole', async () => {
    for (let index = 1; index <= 5; index++) await project.set('development', { A: `${index}`, B: `${index}` })
    await project.rename('A', 'Z')
    const path = `/environment/${project.idOf('development')}/revision?`
    const pages = await readPages<Revision>(path, 4)
    expect(pages.map((page) => page.map(({ revision }) => revision))).toEqual([
      [6, 5, 4, 3],
      [2, 1],
    ])
    expect(pages.flat().map(({ changes }) => changes.length)).toEqual([1, 2, 2, 2, 2, 2])
    expect(pages.flat()).toEqual(await project.revisions('development'))
  })

  test('an environment of another project has none here', async () => {
    const other = await createSecretProject(service, owner.session)
    const foreign = `/environment/${other.idOf('development')}`
    expect((await project.ask('GET', `${foreign}/revision`)).status).toBe(404)
    expect((await project.ask('POST', `${foreign}/revision/0/restore`, {})).status).toBe(404)
    expect((await project.ask('POST', `${foreign}/promote`, { from: 'development' })).status).toBe(404)
    expect((await promote({ from: other.idOf('development') })).status).toBe(404)
  })
})

describe('restoring a revision', () => {
  const before = { KEPT: 'k', CHANGED: 'old', REMOVED: 'r', RENAMED: 'n', REFERENCE: '${KEPT}' }

  beforeEach(async () => {
    await project.set('development', before)
    await project.set('staging', { KEPT: 'elsewhere' })
    await project.set('development', { CHANGED: 'new', ADDED: 'a' })
    await project.remove('development', 'REMOVED')
    await project.rename('RENAMED', 'OTHER_NAME')
  })

  test('brings every key back to how it stood, and touches no other environment', async () => {
    const { results, revision } = await restoreRevision('development', 1)
    expect(revision).toBe(5)
    expect(await project.state('development')).toEqual(before)
    expect(await project.state('staging')).toEqual({ KEPT: 'elsewhere' })
    expect(Object.fromEntries(results.map(({ key, status }) => [key, status]))).toEqual({
      ADDED: 'deleted',
      OTHER_NAME: 'deleted',
      CHANGED: 'updated',
      REMOVED: 'created',
      RENAMED: 'created',
    })
    expect(await project.revisions('staging')).toHaveLength(1)
  })

  test('can itself be undone', async () => {
    const now = await project.state('development')
    await restoreRevision('development', 1)
    await restoreRevision('development', 4)
    expect(await project.state('development')).toEqual(now)
  })

  test('as a dry run tells what it would do and does nothing', async () => {
    const now = await project.state('development')
    const dry = await restoreRevision('development', 1, { dryRun: true })
    expect(dry.revision).toBe(4)
    expect(await project.state('development')).toEqual(now)
    expect(await project.revisions('development')).toHaveLength(4)
    const real = await restoreRevision('development', 1)
    const told = ({ results }: RevisionResults) => results.map(({ key, status, version }) => [key, status, version])
    expect(told(dry)).toEqual(told(real))
  })

  test('needs no body, and takes a message', async () => {
    await restoreRevision('development', 1, undefined)
    await restoreRevision('development', 2, { message: 'never mind' })
    const [newest, restored] = await project.revisions('development')
    expect(restored?.message).toBe('restored revision 1')
    expect(newest?.message).toBe('never mind')
  })

  test('0 empties the environment, and the current one changes nothing', async () => {
    expect(await restoreRevision('development', 4)).toEqual({ success: true, results: [], revision: 4 })
    await restoreRevision('development', 0)
    expect(await project.state('development')).toEqual({})
  })

  test('leaves personal values alone', async () => {
    await project.allowPersonal('development')
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/KEPT/value', personal)
    await restoreRevision('development', 0)
    await restoreRevision('development', 1)
    const { values } = await project.must<Secret>('GET', `/secret/KEPT${development}`)
    expect(values.map(({ value, isPersonal }) => [value, isPersonal])).toEqual([
      ['k', false],
      ['mine', true],
    ])
  })

  test('that never was is not found, and a malformed one is refused', async () => {
    const restore = async (revision: string) =>
      (await project.ask('POST', `/environment/${project.idOf('development')}/revision/${revision}/restore`, {})).status
    expect(await restore('5')).toBe(404)
    expect(await restore('-1')).toBe(400)
    expect(await restore('latest')).toBe(400)
    expect(await restore('1.5')).toBe(400)
  })

  const described = { note: 'why it is there', type: 'build', dataType: 'url' }
  const find = async (key: string) => project.must<Secret>('GET', `/secret/${key}?environmentId=production`)
  const makeDescribed = (value: string) =>
    project.must('POST', '/secret', {
      environments: ['production', 'staging'],
      secrets: [{ key: 'KEY', value, ...described }],
    })

  test('takes what lies in the trash out of it, with its id, its note and its versions', async () => {
    await makeDescribed('one')
    const old = await find('KEY')
    await project.must('DELETE', '/secret/KEY')
    const dry = await restoreRevision('production', 1, { dryRun: true })
    expect(await project.must('GET', '/secret/trash')).toHaveLength(1)
    const real = await restoreRevision('production', 1)
    expect(dry.results).toEqual(real.results)
    expect(real.results).toEqual([
      { key: 'KEY', environmentId: project.idOf('production'), status: 'created', id: old.id, version: 3 },
    ])
    expect(await find('KEY')).toMatchObject({ id: old.id, ...described, createdAt: old.createdAt })
    expect(await project.must('GET', '/secret/trash')).toEqual([])
    expect(await project.must('GET', '/secret/KEY/version?environmentId=production')).toHaveLength(3)
    expect(await diff('production@1', 'production')).toMatchObject({
      added: [],
      removed: [],
      changed: [],
      same: ['KEY'],
    })
    const { totalSecrets } = await countsOf('staging')
    expect(totalSecrets).toBe(1)
    expect(await project.state('staging')).toEqual({ KEPT: 'elsewhere' })
  })

  test('takes it out under the name of then, if it was renamed before it was deleted', async () => {
    await makeDescribed('one')
    const { id } = await find('KEY')
    await project.rename('KEY', 'NEW_NAME')
    await project.must('DELETE', '/secret/NEW_NAME')
    await restoreRevision('production', 1)
    expect(await find('KEY')).toMatchObject({ id, ...described })
    expect(await project.must('GET', '/secret/trash')).toEqual([])
    await restoreRevision('production', 2)
    expect(await project.state('production')).toEqual({ NEW_NAME: 'one' })
  })

  test('describes a name that comes back as the secret that has another name elsewhere by now', async () => {
    await makeDescribed('one')
    const { id } = await find('KEY')
    await project.rename('KEY', 'NEW_NAME')
    const { results } = await restoreRevision('production', 1)
    expect(results.map(({ key, status }) => [key, status])).toEqual([
      ['NEW_NAME', 'deleted'],
      ['KEY', 'created'],
    ])
    const back = await find('KEY')
    expect(back).toMatchObject(described)
    expect(back.id).not.toBe(id)
    const [elsewhere] = await project.must<Secret[]>('GET', '/secret?environmentId=staging&q=NEW_NAME')
    expect(elsewhere).toMatchObject({ id, values: [{ value: 'one' }], ...described })
  })

  test('leaves the trash to those who reach the whole project', async () => {
    await makeDescribed('one')
    const { id } = await find('KEY')
    await project.must('DELETE', '/secret/KEY')
    const scope = { environments: [project.idOf('production')] }
    const { token } = await createToken(service, owner.session, { scope })
    const path = `/environment/${project.idOf('production')}/revision/1/restore`
    await project.must('POST', path, {}, token)
    expect(await find('KEY')).toMatchObject(described)
    expect(await project.must('GET', '/secret/trash')).toMatchObject([{ id }])
  })

  test.each([
    ['has another name by now', () => project.rename('KEY', 'NEW_NAME')],
    ['lies in the trash', () => project.must('DELETE', '/secret/KEY')],
  ])('tells nothing of how a secret is described that went on out of reach and %s', async (_what, change) => {
    await project.set('production', { KEY: 'one' })
    await project.set('staging', { KEY: 'one' })
    await project.remove('production', 'KEY')
    await project.must('PUT', '/secret/KEY', { name: 'KEY', ...described, values: [] })
    await change()
    const scope = { environments: [project.idOf('production')] }
    const { token } = await createToken(service, owner.session, { scope })
    const path = `/environment/${project.idOf('production')}/revision/1/restore`
    await project.must('POST', path, {}, token)
    expect(await find('KEY')).toMatchObject({ note: '', type: 'runtime', dataType: 'text', values: [{ value: 'one' }] })
  })

  test('works where the old values and the present ones would refer to each other', async () => {
    await project.set('production', { FIRST: '${SECOND}' })
    await project.remove('production', 'FIRST')
    await project.set('production', { SECOND: '${FIRST}' })
    await restoreRevision('production', 1)
    expect(await project.state('production')).toEqual({ FIRST: '${SECOND}' })
  })
})

describe('the difference', () => {
  beforeEach(async () => {
    await project.set('development', { SAME: '1', CHANGED: 'secret-one', GONE: 'secret-two' })
    await project.set('staging', { SAME: '1', CHANGED: 'secret-three', NEW: 'secret-four' })
  })
  const expected = { added: ['NEW'], removed: ['GONE'], changed: ['CHANGED'], same: ['SAME'] }

  test('between two environments names the keys, by environment name or id, and audits nothing', async () => {
    expect(await diff('development', 'staging')).toEqual(expected)
    expect(await diff(project.idOf('development'), project.idOf('staging'))).toEqual(expected)
    expect(await diff('staging', 'staging')).toMatchObject({ added: [], removed: [], changed: [] })
    expect(await project.views()).toEqual([])
  })

  test('has values only when they are asked for, and then it is audited', async () => {
    const { values, ...keys } = await diff('development', 'staging', '&values=true')
    expect(keys).toEqual(expected)
    expect(values).toEqual({
      CHANGED: { from: 'secret-one', to: 'secret-three' },
      GONE: { from: 'secret-two' },
      NEW: { to: 'secret-four' },
    })
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view?.after).toEqual({
      keys: ['CHANGED', 'GONE', 'NEW'],
      from: 'development',
      to: 'staging',
      environmentIds: ['development', 'staging'].map(project.idOf),
    })
    expect(await diff('development', 'staging', '&values=false')).toEqual(expected)
    expect(await project.views()).toHaveLength(1)
  })

  test('between two revisions of an environment is what happened in between, by the names of then', async () => {
    await project.rename('SAME', 'RENAMED')
    await project.set('development', { CHANGED: 'secret-five' })
    expect(await diff('development@1', 'development@3')).toEqual({
      added: ['RENAMED'],
      removed: ['SAME'],
      changed: ['CHANGED'],
      same: ['GONE'],
    })
    expect(await diff('development@0', 'development@1')).toMatchObject({ added: ['CHANGED', 'GONE', 'SAME'] })
    expect(await diff('development@3', 'development')).toMatchObject({ added: [], removed: [], changed: [] })
  })

  test('between two points in time is the difference of what stood then', async () => {
    const [newest] = await project.revisions('development')
    const then = newest?.createdAt ?? ''
    service.clock.offsetMs += 60_000
    await project.set('development', { LATER: '1' })
    const moment = Date.parse(then)
    const at = (ms: number) => `development@${new Date(ms).toISOString()}`
    expect(await diff(at(moment), 'development')).toMatchObject({ added: ['LATER'], removed: [], changed: [] })
    expect(await diff(at(moment + 1_000), at(moment + 600_000))).toMatchObject({ added: ['LATER'] })
    expect(await diff(at(moment - 1), at(moment))).toMatchObject({ added: ['CHANGED', 'GONE', 'SAME'], same: [] })
    const elsewhere = `development@${new Date(moment + 7_200_000).toISOString().replace('Z', '+02:00')}`
    expect(await diff(elsewhere, at(moment))).toMatchObject({ added: [], removed: [], changed: [] })
  })

  test.each([
    ['from=development', /^to: /],
    ['to=development', /^from: /],
    ['from=development@&to=staging', /^from: /],
    ['from=development&to=staging@yesterday', /^to: /],
    ['from=development&to=staging@-1', /^to: /],
    ['from=development&to=staging@1.5', /^to: /],
    ['from=development@2026-13-01T00:00:00Z&to=staging', /^from: /],
    ['from=development@2026-01-01T00:00:00&to=staging', /^from: /],
    ['from=development&to=staging&values=perhaps', /^values: /],
  ])('refuses %s', async (query, message) => {
    const answer = await project.ask('GET', `/secret/diff?${query}`)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toMatch(message)
  })

  test.each(['from=nowhere&to=staging', 'from=development&to=nowhere@1', 'from=development@99&to=staging'])(
    'does not find %s',
    async (query) => {
      expect((await project.ask('GET', `/secret/diff?${query}`)).status).toBe(404)
    },
  )
})

describe('a promotion', () => {
  beforeEach(async () => {
    await project.set('development', { A: 'a', B: '${A}', SAME: 's' })
    await project.set('staging', { A: 'other', SAME: 's', ONLY_HERE: 'h' })
  })
  const untouched = { A: 'other', SAME: 's', ONLY_HERE: 'h' }
  const statuses = ({ results }: Promoted) => Object.fromEntries(results.map(({ key, status }) => [key, status]))

  test('copies everything, removes nothing, leaves references as they are, and makes one revision', async () => {
    const { body } = await promote({ message: 'release 7' })
    expect(statuses(body)).toEqual({ A: 'updated', B: 'created', SAME: 'unchanged' })
    expect(body.revision).toBe(2)
    expect(await project.state('staging')).toEqual({ A: 'a', B: '${A}', SAME: 's', ONLY_HERE: 'h' })
    expect(await project.state('development')).toEqual({ A: 'a', B: '${A}', SAME: 's' })
    const [newest] = await project.revisions('staging')
    expect(newest?.message).toBe('release 7')
    expect(changesOf(newest)).toEqual([
      { key: 'A', action: 'updated' },
      { key: 'B', action: 'created' },
    ])
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test('of chosen keys copies only these', async () => {
    expect(statuses((await promote({ keys: ['B'] })).body)).toEqual({ B: 'created' })
    expect(await project.state('staging')).toEqual({ ...untouched, B: '${A}' })
  })

  test('of a key that is named twice copies it once', async () => {
    const answer = await promote({ keys: ['B', 'B'] })
    expect([200, 400], answer.text).toContain(answer.status)
    expect(await project.state('staging')).toEqual(answer.status === 200 ? { ...untouched, B: '${A}' } : untouched)
  })

  test('in the mode create is refused where a value exists, naming the keys, and changes nothing', async () => {
    const answer = await promote({ mode: 'create' })
    expect(answer.status).toBe(409)
    expect(answer.body.message).toContain('A, SAME')
    expect(await project.state('staging')).toEqual(untouched)
    expect((await promote({ mode: 'create', keys: ['B'] })).status).toBe(200)
  })

  test('in the mode skip leaves what exists', async () => {
    const { body } = await promote({ mode: 'skip' })
    expect(statuses(body)).toEqual({ A: 'skipped', B: 'created', SAME: 'skipped' })
    expect(await project.state('staging')).toEqual({ ...untouched, B: '${A}' })
  })

  test('does not take personal values along', async () => {
    await project.allowPersonal('development')
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/A/value', personal)
    await promote({})
    expect(await project.state('staging')).toMatchObject({ A: 'a' })
  })

  test('as a dry run changes and audits nothing, and its digest lets the same promotion through', async () => {
    const dry = await promote({ dryRun: true })
    expect(statuses(dry.body)).toEqual({ A: 'updated', B: 'created', SAME: 'unchanged' })
    expect(await project.revisions('staging')).toHaveLength(1)
    expect(await project.views()).toEqual([])
    expect(await project.state('staging')).toEqual(untouched)
    const real = await promote({ ifDiff: dry.body.diff })
    expect(real.status, real.text).toBe(200)
    expect(real.body.diff).toBe(dry.body.diff)
    expect(await project.state('staging')).toMatchObject({ A: 'a', B: '${A}' })
  })

  const changes: [what: string, change: () => Promise<unknown>][] = [
    ['a value of the source changed', () => project.set('development', { A: 'b' })],
    ['a value of the target changed', () => project.set('staging', { A: 'b' })],
    ['the source has a new key', () => project.set('development', { NEW: 'n' })],
    ['the source lost a key', () => project.remove('development', 'B')],
    ['the target lost a key', () => project.remove('staging', 'A')],
    ['a secret has another name', () => project.rename('B', 'C')],
  ]
  test.each(changes)('with the digest of a dry run is refused when %s', async (_what, change) => {
    const { diff: digest } = (await promote({ dryRun: true })).body
    await change()
    const before = await project.state('staging')
    const answer = await promote({ ifDiff: digest })
    expect(answer.status).toBe(412)
    expect(await project.state('staging')).toEqual(before)
    const again = await promote({ dryRun: true })
    expect((await promote({ ifDiff: again.body.diff })).status).toBe(200)
  })

  test('with the digest of a dry run goes through when something else changed', async () => {
    const { diff: digest } = (await promote({ dryRun: true, keys: ['A'] })).body
    await project.set('development', { SAME: 'another' })
    await project.set('staging', { ONLY_HERE: 'another' })
    expect((await promote({ keys: ['A'], ifDiff: digest })).status).toBe(200)
  })

  test('with a digest that nobody gave out is refused', async () => {
    expect((await promote({ ifDiff: 'something' })).status).toBe(412)
  })

  test('is audited as a read of the source', async () => {
    await promote({ keys: ['A'] })
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view).toMatchObject({
      entity: { type: 'secrets', id: project.id },
      environmentId: project.idOf('development'),
      after: { keys: ['A'], promotedTo: 'staging' },
    })
  })

  test.each([
    [{ from: 'staging' }, 400, /^from: /],
    [{ keys: ['ONLY_HERE'] }, 400, /^keys: ONLY_HERE/],
    [{ keys: [] }, 400, /^keys/],
    [{ mode: 'replace' }, 400, /^mode: /],
    [{ from: 'nowhere' }, 404, /./],
  ])('of %j is refused', async (body, status, message) => {
    const answer = await promote(body)
    expect(answer.status).toBe(status)
    expect(answer.body.message).toMatch(message)
    expect(await project.state('staging')).toEqual(untouched)
  })

  test('needs both environments in the scope', async () => {
    const scope = { environments: [project.idOf('staging')] }
    const { token } = await createToken(service, owner.session, { scope })
    const path = `/environment/${project.idOf('staging')}/promote`
    expect((await project.ask('POST', path, { from: 'development' }, token)).status).toBe(404)
  })
})

test('what was removed before its secret went to the trash stays removed, even within one millisecond', async () => {
  await project.set('development', { KEY: 'one' })
  await project.set('staging', { KEY: 'two' })
  const moment = service.app.services.now() + 1_000
  const { offsetMs } = service.clock
  Object.defineProperty(service.clock, 'offsetMs', { get: () => moment - Date.now(), configurable: true })
  try {
    await project.remove('development', 'KEY')
    await project.must('DELETE', '/secret/KEY')
  } finally {
    Object.defineProperty(service.clock, 'offsetMs', { value: offsetMs + 2_000, writable: true, configurable: true })
  }
  await project.must('POST', '/secret/KEY/restore')
  expect(await project.state('development')).toEqual({})
  expect(await project.state('staging')).toEqual({ KEY: 'two' })
})

/** What the service should hold: secrets by name with their values, those in the trash, and every state that ever was. */
type ModelSecret = { readonly id: number; name: string; note: string; readonly values: Map<Place, string> }
type Place = (typeof places)[number]
type Stood = { readonly values: Values; readonly ids: Readonly<Record<string, number>> }
type Model = { live: ModelSecret[]; trash: ModelSecret[]; made: number; readonly history: Record<Place, Stood[]> }
const places = ['development', 'staging'] as const

const name = fc.constantFrom('A', 'B', 'C', 'D')
const value = fc.constantFrom('', 'one', 'two', 'three', '${NOWHERE}')
const place = fc.constantFrom(...places)
const mode = fc.constantFrom('create' as const, 'upsert' as const, 'skip' as const)
const batchStep = fc.oneof(
  fc.record({ op: fc.constant('set' as const), key: name, value }),
  fc.record({ op: fc.constant('delete' as const), key: name }),
  fc.record({ op: fc.constant('rename' as const), key: name, to: name }),
)
type BatchStep = typeof batchStep extends fc.Arbitrary<infer Step> ? Step : never

const command = fc.oneof(
  fc.record({
    do: fc.constant('create' as const),
    places: fc.uniqueArray(place, { minLength: 1 }),
    values: fc.dictionary(name, value, { minKeys: 1, noNullPrototype: true }),
    note: fc.option(fc.constantFrom('this', 'that'), { nil: undefined }),
    mode,
  }),
  fc.record({ do: fc.constant('update' as const), key: name, place, value }),
  fc.record({ do: fc.constant('rename' as const), key: name, to: name }),
  fc.record({ do: fc.constant('delete' as const), key: name, place }),
  fc.record({ do: fc.constant('trash' as const), key: name }),
  fc.record({ do: fc.constant('untrash' as const), key: name }),
  fc.record({
    do: fc.constant('batch' as const),
    place,
    steps: fc.uniqueArray(batchStep, { selector: ({ key }) => key, minLength: 1, maxLength: 4 }),
  }),
  fc.record({
    do: fc.constant('promote' as const),
    place,
    keys: fc.option(fc.uniqueArray(name, { minLength: 1 }), { nil: undefined }),
    mode,
  }),
  fc.record({ do: fc.constant('restore' as const), place, back: fc.nat({ max: 6 }) }),
)
type Command = typeof command extends fc.Arbitrary<infer One> ? One : never

const findIn = (list: readonly ModelSecret[], key: string) => list.find((secret) => secret.name === key)
const modelState = ({ live }: Model, where: Place): Values =>
  Object.fromEntries(
    live.flatMap((secret) => {
      const stored = secret.values.get(where)
      return stored === undefined ? [] : [[secret.name, stored]]
    }),
  )

/** Does to the model what the request should do; the status of a refusal, which changes nothing, or 200. */
function follow(model: Model, wanted: Command): number {
  const copy = (list: readonly ModelSecret[]) => list.map((one) => ({ ...one, values: new Map(one.values) }))
  const next: Model = { ...model, live: copy(model.live), trash: copy(model.trash) }
  const touched = new Set<Place>()
  const status = change(next, wanted, touched)
  if (status !== 200) return status
  Object.assign(model, { live: next.live, trash: next.trash, made: next.made })
  for (const where of touched) {
    const ids = Object.fromEntries(model.live.map((one) => [one.name, one.id]))
    model.history[where].push({ values: modelState(model, where), ids })
  }
  return 200
}

function change(model: Model, wanted: Command, touched: Set<Place>): number {
  const secret = 'key' in wanted ? findIn(model.live, wanted.key) : undefined
  switch (wanted.do) {
    case 'create':
      return writeAll(model, wanted.places, wanted.values, wanted.mode, touched, wanted.note)
    case 'update':
      return secret ? writeAll(model, [wanted.place], { [wanted.key]: wanted.value }, 'upsert', touched) : 404
    case 'rename':
      return wanted.key === wanted.to && secret ? 200 : renameOne(model, wanted, touched)
    case 'delete':
      return removeOne(model, wanted.key, wanted.place, touched)
    case 'trash':
      if (!secret) return 404
      model.live.splice(model.live.indexOf(secret), 1)
      model.trash.unshift(secret)
      for (const where of secret.values.keys()) touched.add(where)
      return 200
    case 'untrash': {
      const trashed = findIn(model.trash, wanted.key)
      if (!trashed || secret) return trashed ? 409 : 404
      model.trash.splice(model.trash.indexOf(trashed), 1)
      model.live.push(trashed)
      for (const where of trashed.values.keys()) touched.add(where)
      return 200
    }
    case 'batch':
      return followBatch(model, wanted, touched)
    case 'promote': {
      const source = modelState(model, wanted.place === 'development' ? 'staging' : 'development')
      const keys = wanted.keys ?? Object.keys(source)
      if (keys.some((key) => !(key in source))) return 400
      const chosen = Object.fromEntries(keys.map((key) => [key, source[key] ?? '']))
      return writeAll(model, [wanted.place], chosen, wanted.mode, touched)
    }
    case 'restore': {
      const { values: then = {}, ids = {} } = model.history[wanted.place][revisionOf(model, wanted)] ?? {}
      for (const key of Object.keys(modelState(model, wanted.place))) {
        if (!(key in then)) removeOne(model, key, wanted.place, touched)
      }
      for (const key of Object.keys(then)) if (!findIn(model.live, key)) bringBack(model, key, ids[key] ?? 0)
      return writeAll(model, [wanted.place], then, 'upsert', touched)
    }
  }
}

/** Itself, if it lies in the trash; another one like it, if it has another name by now. */
function bringBack(model: Model, key: string, id: number): void {
  const trashed = model.trash.find((secret) => secret.id === id)
  if (trashed) {
    model.trash.splice(model.trash.indexOf(trashed), 1)
    model.live.push({ ...trashed, name: key, values: new Map() })
    return
  }
  const note = model.live.find((secret) => secret.id === id)?.note ?? ''
  model.live.push({ id: ++model.made, name: key, note, values: new Map() })
}

const revisionOf = (model: Model, { place: where, back }: { place: Place; back: number }) =>
  Math.max(0, model.history[where].length - 1 - back)

function writeAll(
  model: Model,
  where: readonly Place[],
  values: Values,
  how: 'create' | 'upsert' | 'skip',
  touched: Set<Place>,
  note?: string,
): number {
  for (const environment of where) {
    for (const [key, written] of Object.entries(values)) {
      let secret = findIn(model.live, key)
      const old = secret?.values.get(environment)
      if (old !== undefined && how === 'create') return 409
      if (old !== undefined && how === 'skip') continue
      if (!secret) {
        secret = { id: ++model.made, name: key, note: '', values: new Map() }
        model.live.push(secret)
      }
      secret.note = note ?? secret.note
      if (old === written) continue
      secret.values.set(environment, written)
      touched.add(environment)
    }
  }
  return 200
}

function removeOne(model: Model, key: string, where: Place, touched: Set<Place>): number {
  touched.add(where)
  return findIn(model.live, key)?.values.delete(where) ? 200 : 404
}

function renameOne(model: Model, { key, to }: { key: string; to: string }, touched: Set<Place>): number {
  const secret = findIn(model.live, key)
  if (!secret) return 404
  if (findIn(model.live, to)) return 409
  secret.name = to
  for (const where of secret.values.keys()) touched.add(where)
  return 200
}

/** Renames come first, whatever their place in the list; what was written before one, under the name it gives, is refused. */
function followBatch(model: Model, { place: where, steps }: { place: Place; steps: BatchStep[] }, touched: Set<Place>) {
  const isWritten = (key: string, before: number) =>
    steps.slice(0, before).some((step) => step.op !== 'rename' && step.key === key)
  if (steps.some((step, index) => step.op === 'rename' && isWritten(step.to, index))) return 400
  const work = steps.map((step) => () => {
    if (step.op === 'rename') return renameOne(model, step, touched)
    if (step.op === 'delete') return removeOne(model, step.key, where, touched)
    return writeAll(model, [where], { [step.key]: step.value }, 'upsert', touched)
  })
  const isRename = (index: number) => steps[index]?.op === 'rename'
  const ordered = [...work.filter((_, index) => isRename(index)), ...work.filter((_, index) => !isRename(index))]
  for (const run of ordered) {
    const status = run()
    if (status !== 200) return status
  }
  return 200
}

async function send(model: Model, wanted: Command): Promise<number> {
  const { ask, idOf } = project
  switch (wanted.do) {
    case 'create': {
      const { note } = wanted
      const secrets = Object.entries(wanted.values).map(([key, written]) => ({ key, value: written, note }))
      const body = { environments: wanted.places, secrets, mode: wanted.mode }
      const { status } = await ask('POST', '/secret', body)
      return status === 201 ? 200 : status
    }
    case 'update': {
      const body = { environmentId: wanted.place, value: wanted.value }
      return (await ask('PUT', `/secret/${wanted.key}/value`, body)).status
    }
    case 'rename':
      return (await ask('PUT', `/secret/${wanted.key}`, { name: wanted.to, values: [] })).status
    case 'delete':
      return (await ask('DELETE', `/secret/${wanted.key}?environmentId=${wanted.place}`)).status
    case 'trash':
      return (await ask('DELETE', `/secret/${wanted.key}`)).status
    case 'untrash':
      return (await ask('POST', `/secret/${wanted.key}/restore`)).status
    case 'batch':
      return (await ask('POST', '/secret/batch', { environmentId: wanted.place, operations: wanted.steps })).status
    case 'promote': {
      const from = wanted.place === 'development' ? 'staging' : 'development'
      const body = { from, mode: wanted.mode, ...(wanted.keys && { keys: wanted.keys }) }
      return (await ask('POST', `/environment/${idOf(wanted.place)}/promote`, body)).status
    }
    case 'restore': {
      const path = `/environment/${idOf(wanted.place)}/revision/${revisionOf(model, wanted)}/restore`
      return (await ask('POST', path, {})).status
    }
  }
}

/** Each secret is the one that it was, under whatever name, and is described as it was. */
async function expectSameSecrets(model: Model, known: Map<number, string>): Promise<void> {
  const secrets = await project.must<Secret[]>('GET', '/secret?view=keys')
  expect(secrets.map((secret) => [secret.name, secret.note])).toEqual(
    model.live.map((secret) => [secret.name, secret.note]).sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )
  for (const { name: key, id } of secrets) {
    const modelId = findIn(model.live, key)?.id ?? 0
    expect(known.get(modelId) ?? id, key).toBe(id)
    known.set(modelId, id)
  }
  expect(new Set(known.values()).size).toBe(known.size)
}

test('after any history, restoring any revision gives exactly the state that stood at it', async () => {
  const histories = fc.array(command, { minLength: 1, maxLength: 25 })
  await fc.assert(
    fc.asyncProperty(histories, async (commands) => {
      project = await createSecretProject(service, owner.session)
      const empty = { values: {}, ids: {} }
      const model: Model = { live: [], trash: [], made: 0, history: { development: [empty], staging: [empty] } }
      const known = new Map<number, string>()
      for (const wanted of commands) {
        // Two moments are never the same: which of two equal names went to the trash last is then certain.
        service.clock.offsetMs += 5
        const status = await send(model, wanted)
        expect(status, JSON.stringify(wanted)).toBe(follow(model, wanted))
        await expectSameSecrets(model, known)
      }
      for (const where of places) {
        const states = model.history[where]
        expect(await project.state(where)).toEqual(states.at(-1)?.values)
        const [newest] = await project.revisions(where, '?limit=1')
        expect(newest?.revision ?? 0).toBe(states.length - 1)
        for (const [revision, { values }] of [...states].entries()) {
          const back = states.length - 1 - revision
          await restoreRevision(where, revision)
          expect(follow(model, { do: 'restore', place: where, back })).toBe(200)
          await expectSameSecrets(model, known)
          expect(await project.state(where), `${where}@${revision}`).toEqual(values)
        }
      }
    }),
    { numRuns: times(15, 100) },
  )
  const verdict = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(verdict.body.ok).toBe(true)
})
