// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Restoring a revision of an environment. */
import type { Diff } from '@coffer/contract/history'
import type { RevisionResults, Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
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

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
})

const development = '?environmentId=development'
const restoreRevision = (environment: string, revision: number, body: unknown = {}) =>
  project.must<RevisionResults>('POST', `/environment/${project.idOf(environment)}/revision/${revision}/restore`, body)
const diff = (from: string, to: string, more = '') =>
  project.must<Diff>('GET', `/secret/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}${more}`)
const countsOf = async (environment: string) => {
  const list = await project.must<{ name: string; totalSecrets: number }[]>('GET', '/environment')
  return { totalSecrets: list.find(({ name }) => name === environment)?.totalSecrets }
}

describe('restoring a revision', () => {
  const before = { KEPT: 'k', CHANGED: 'old', REMOVED: 'r', RENAMED: 'n', REFERENCE: '${KEPT}' }

  beforeEach(async () => {
    await project.set('development', before)
    await project.set('staging', { KEPT: 'elsewhere' })
    await project.set('development', { CHANGED: 'new', ADDED: 'a' })
    await project.remove('development', 'REMOVED')
    await project.rename('RENAMED', 'OTHER_NAME')
  })

  test('brings back every key as it was, and changes no other environment', async () => {
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

  test('as a dry run reports the results and changes nothing', async () => {
    const now = await project.state('development')
    const dry = await restoreRevision('development', 1, { dryRun: true })
    expect(dry.revision).toBe(4)
    expect(await project.state('development')).toEqual(now)
    expect(await project.revisions('development')).toHaveLength(4)
    const real = await restoreRevision('development', 1)
    const summaryOf = ({ results }: RevisionResults) =>
      results.map(({ key, status, version }) => [key, status, version])
    expect(summaryOf(dry)).toEqual(summaryOf(real))
  })

  test('needs no body, and takes a message', async () => {
    await restoreRevision('development', 1, undefined)
    await restoreRevision('development', 2, { message: 'never mind' })
    const [newest, restored] = await project.revisions('development')
    expect(restored?.message).toBe('restored revision 1')
    expect(newest?.message).toBe('never mind')
  })

  test('empties the environment for revision 0, and changes nothing for the current revision', async () => {
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

  test('is 404 for a revision that never existed, and 400 for a malformed one', async () => {
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

  test('takes a secret out of the trash with its id, note and versions', async () => {
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

  test('takes a secret out of the trash under its name at that revision', async () => {
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

  test('copies note and types to a restored name if its secret has another name by now', async () => {
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

  test('leaves the trash alone for a credential for a part of the project', async () => {
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
    ['was renamed', () => project.rename('KEY', 'NEW_NAME')],
    ['is in the trash', () => project.must('DELETE', '/secret/KEY')],
  ])('reveals no note or type of a secret that continued out of scope and %s', async (_what, change) => {
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

  test('succeeds even if old and present values together would form a reference cycle', async () => {
    await project.set('production', { FIRST: '${SECOND}' })
    await project.remove('production', 'FIRST')
    await project.set('production', { SECOND: '${FIRST}' })
    await restoreRevision('production', 1)
    expect(await project.state('production')).toEqual({ FIRST: '${SECOND}' })
  })
})

test('a value removed before its secret was deleted stays removed, even within one millisecond', async () => {
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
