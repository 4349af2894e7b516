// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Revisions of an environment: one per change, and how they are listed. */
import type { Diff, Promoted, Revision } from '@coffer/contract/history'
import type { RevisionResults, Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Answer,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

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
const restoreRevision = (environment: string, revision: number, body: unknown = {}) =>
  project.must<RevisionResults>('POST', `/environment/${project.idOf(environment)}/revision/${revision}/restore`, body)
const diff = (from: string, to: string, more = '') =>
  project.must<Diff>('GET', `/secret/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}${more}`)
const promote = (body: Record<string, unknown>, to = 'staging') =>
  project.ask<Promoted & { message: string }>('POST', `/environment/${project.idOf(to)}/promote`, {
    from: 'development',
    ...body,
  })
const changesOf = (revision: Revision | undefined) =>
  (revision?.changes ?? []).toSorted((a, b) => (a.key < b.key ? -1 : 1))

/** Follows the cursor to the last page. */
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

describe('revisions', () => {
  test('every write creates one revision with the changed keys, the actions, the author and the message', async () => {
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

  test('a bulk create is one revision of each environment that it writes to, and of no other', async () => {
    const secrets = Array.from({ length: 30 }, (_, index) => ({ key: `KEY_${index}`, value: `${index}` }))
    await project.must('POST', '/secret', { environments: ['development', 'staging'], secrets })
    for (const environment of ['development', 'staging']) {
      const revisions = await project.revisions(environment)
      expect(revisions).toHaveLength(1)
      expect(revisions[0]?.changes).toHaveLength(30)
    }
    expect(await project.revisions('production')).toEqual([])
  })

  test('a batch with renames is one revision', async () => {
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

  test('a batch can swap two names through a third one', async () => {
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

  test('a rename that closes a reference cycle is refused and creates no revision', async () => {
    await project.set('development', { A: '${B}', C: '${A}' })
    const renamed = await project.ask('PUT', '/secret/C', { name: 'B', values: [] })
    expect(renamed.status).toBe(409)
    const operations = [{ op: 'rename', key: 'C', to: 'B' }]
    const batch = await project.ask('POST', '/secret/batch', { environmentId: 'development', operations })
    expect(batch.status).toBe(409)
    expect(await project.state('development')).toEqual({ A: '${B}', C: '${A}' })
    expect(await project.revisions('development')).toHaveLength(1)
  })

  describe('a rename that would close a reference cycle', () => {
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
      ['the referenced value is replaced', batch({ op: 'set', key: 'X', value: 'plain' }), { B: '${X}', X: 'plain' }],
      ['the referenced value is deleted', batch({ op: 'delete', key: 'X' }), { B: '${X}' }],
      ['the secret is renamed again', batch({ op: 'rename', key: 'B', to: 'C' }), { C: '${X}', X: '${B}' }],
      ['the referenced secret is renamed', batch({ op: 'rename', key: 'X', to: 'Y' }), { B: '${X}', Y: '${B}' }],
    ])('succeeds if %s in the same request', async (_what, [method, path, body], after) => {
      await project.must(method, path, body)
      expect(await project.state('development')).toEqual(after)
    })

    test.each([
      ['the value is replaced by an equal one', update({ ...plain, value: '${X}' })],
      ['the value is replaced by one with the same reference', update({ ...plain, value: 'see ${X}' })],
      ['the value is replaced in another environment', update({ ...plain, environmentId: 'staging' })],
      ['only a personal value has no reference', update({ ...plain, isPersonal: true })],
      ['another secret is deleted', batch({ op: 'delete', key: 'ELSE' })],
      ['another secret is renamed', batch({ op: 'rename', key: 'ELSE', to: 'OTHER' })],
      [
        'the referenced value is replaced by one that closes the cycle, too',
        batch({ op: 'set', key: 'X', value: '-${B}' }),
      ],
    ])('is refused if %s', async (_what, [method, path, body]) => {
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

    test('is refused if the request breaks the cycle in only one of two environments', async () => {
      await project.set('staging', { A: '${X}', X: '${B}' })
      const [method, path, body] = update(plain)
      expect((await project.ask(method, path, body)).status).toBe(409)
      await project.must(...update(plain, { ...plain, environmentId: 'staging' }))
      expect(await project.state('staging')).toEqual({ B: 'plain', X: '${B}' })
    })
  })

  test('an import, a promotion and a restore are one revision each', async () => {
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

  test('a rename is one revision of every environment in which the secret has a value', async () => {
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

  test('a rename and new values in one request are one revision', async () => {
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

  test('a slow rename and write have one timestamp, and a millisecond earlier the old state is current', async () => {
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

  test('personal values, equal values, dry runs and refusals create no revision', async () => {
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

  test('are in every response as the current number, even if none was created', async () => {
    const file = (body: object) => ({ environmentId: 'development', format: 'dotenv', mode: 'upsert', ...body })
    const batch = (value: string) => ({ environmentId: 'development', operations: [{ op: 'set', key: 'A', value }] })
    const revisionAfter = async (path: string, body: object) =>
      (await project.must<RevisionResults>('POST', path, body)).revision
    const restore = (revision: number) => `/environment/${project.idOf('development')}/revision/${revision}/restore`
    const promoting = `/environment/${project.idOf('development')}/promote`
    expect(await revisionAfter('/secret/import', file({ content: 'A=1' }))).toBe(1)
    expect(await revisionAfter('/secret/import', file({ content: 'A=2' }))).toBe(2)
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
      expect(await revisionAfter(path, body), JSON.stringify([path, body])).toBe(2)
    }
    expect(await revisionAfter(restore(1), {})).toBe(3)
  })

  test('are paginated, each revision once and complete', async () => {
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

  test('are not found through another project', async () => {
    const other = await createSecretProject(service, owner.session)
    const foreign = `/environment/${other.idOf('development')}`
    expect((await project.ask('GET', `${foreign}/revision`)).status).toBe(404)
    expect((await project.ask('POST', `${foreign}/revision/0/restore`, {})).status).toBe(404)
    expect((await project.ask('POST', `${foreign}/promote`, { from: 'development' })).status).toBe(404)
    expect((await promote({ from: other.idOf('development') })).status).toBe(404)
  })
})
