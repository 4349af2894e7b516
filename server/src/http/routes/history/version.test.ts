// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
/** Versions of a value. */
import type { SecretVersion, SecretVersionValue } from '@coffer/contract/history'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Answer,
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
const versionsOf = (key: string, query = '') =>
  project.must<SecretVersion[]>('GET', `/secret/${key}/version${development}${query}`)
const readVersion = (key: string, version: number) =>
  project.must<SecretVersionValue>('GET', `/secret/${key}/version/${version}${development}`)
const restoreVersion = (key: string, version: number, environmentId = 'development') =>
  project.ask<{ message: string; version: number }>('POST', `/secret/${key}/version/${version}/restore`, {
    environmentId,
  })

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

describe('versions', () => {
  test('are listed newest first with author, time and message, and removals are marked', async () => {
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

  test('are paginated, each version once', async () => {
    for (let index = 1; index <= 5; index++) await project.set('development', { KEY: `value ${index}` })
    const pages = await readPages<SecretVersion>(`/secret/KEY/version${development}&`, 2)
    expect(pages.map((page) => page.map(({ version }) => version))).toEqual([[5, 4], [3, 2], [1]])
    const farCursor = Buffer.from(String(Number.MAX_SAFE_INTEGER)).toString('base64url')
    expect(await versionsOf('KEY', `&cursor=${farCursor}`)).toHaveLength(5)
    expect((await project.ask('GET', `/secret/KEY/version${development}&cursor=nonsense`)).status).toBe(400)
  })

  test('belong to one environment, and a personal value creates none', async () => {
    await project.allowPersonal('development')
    await project.set('development', { KEY: 'here' })
    await project.set('staging', { KEY: 'there' })
    await project.set('staging', { KEY: 'there, again' })
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/KEY/value', personal)
    expect(await versionsOf('KEY')).toHaveLength(1)
    expect((await readVersion('KEY', 1)).value).toBe('here')
  })

  test('are not created by an equal value', async () => {
    await project.set('development', { KEY: 'same' })
    await project.set('development', { KEY: 'same' })
    expect(await versionsOf('KEY')).toHaveLength(1)
  })

  test('have a value, whose read is recorded; a removal has none, and its read is not recorded', async () => {
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

  test('restoring a version makes its value current, as a new version and a new revision', async () => {
    await project.set('development', { KEY: 'one', OTHER: 'stays' })
    await project.set('development', { KEY: 'two' })
    expect((await restoreVersion('KEY', 1)).body).toEqual({ success: true, version: 3 })
    expect(await project.state('development')).toEqual({ KEY: 'one', OTHER: 'stays' })
    expect((await readVersion('KEY', 3)).value).toBe('one')
    const [newest] = await project.revisions('development')
    expect(newest).toMatchObject({ revision: 3, changes: [{ key: 'KEY', action: 'updated' }] })
  })

  test('restoring a version brings back a removed value', async () => {
    await project.set('development', { KEY: 'one' })
    await project.remove('development', 'KEY')
    expect((await restoreVersion('KEY', 1)).body).toEqual({ success: true, version: 3 })
    expect(await project.state('development')).toEqual({ KEY: 'one' })
  })

  test('restoring the current version changes nothing', async () => {
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

  test('a missing secret, environment, version or value is 404', async () => {
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
    'the malformed path %s is refused',
    async (path) => {
      await project.set('development', { KEY: 'one' })
      expect((await project.ask('GET', `/secret/KEY${path}`)).status).toBe(400)
    },
  )

  test('a read-only token reads versions in its scope and restores none', async () => {
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
