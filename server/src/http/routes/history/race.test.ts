/** A secret is renamed or deleted while a version of it is restored: the right secret is restored, or none. */
import type { SecretVersion } from '@coffer/contract/history'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { until } from '../../../../../test/wait.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'one', OTHER: 'other' })
  await project.set('development', { KEY: 'two' })
})

type Change = readonly [method: string, path: string, body?: unknown]
const batch = (...renames: readonly (readonly [key: string, to: string])[]): Change => [
  'POST',
  '/secret/batch',
  { environmentId: 'development', operations: renames.map(([key, to]) => ({ op: 'rename', key, to })) },
]

/** The restore finds the secret before the change commits, and runs right after it. */
async function restoreDuring([method, path, body]: Change): Promise<number> {
  const { engine } = service.app.services
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const transactions = vi.spyOn(engine, 'transaction')
  const waiting = () => transactions.mock.calls.filter(([lock]) => lock === workspaceId).length
  try {
    const holding = engine.transaction(workspaceId, () => released)
    const changing = project.ask(method, path, body)
    await until(() => waiting() === 2 || undefined, 120_000, 'the change waits')
    const restoring = project.ask('POST', '/secret/KEY/version/1/restore', { environmentId: 'development' })
    await until(() => waiting() === 3 || undefined, 120_000, 'the restore waits')
    release()
    const [changed, restored] = await Promise.all([changing, restoring, holding])
    expect(changed.status, changed.text).toBe(200)
    return restored.status
  } finally {
    release()
    transactions.mockRestore()
  }
}

const versionsOf = async (key: string) => {
  const versions = await project.must<SecretVersion[]>('GET', `/secret/${key}/version?environmentId=development`)
  return versions.map(({ version }) => version)
}

test('a secret renamed meanwhile is restored under its new name, and no second secret is created', async () => {
  const { id } = await project.must<Secret>('GET', '/secret/KEY')
  expect(await restoreDuring(batch(['KEY', 'RENAMED']))).toBe(200)
  expect(await project.state('development')).toEqual({ RENAMED: 'one', OTHER: 'other' })
  expect((await project.must<Secret>('GET', '/secret/RENAMED')).id).toBe(id)
  expect(await versionsOf('RENAMED')).toEqual([3, 2, 1])
})

test('a secret whose name was taken meanwhile is restored, and the new holder of the name is unchanged', async () => {
  expect(await restoreDuring(batch(['KEY', 'FREE'], ['OTHER', 'KEY'], ['FREE', 'OTHER']))).toBe(200)
  expect(await project.state('development')).toEqual({ OTHER: 'one', KEY: 'other' })
  expect(await versionsOf('KEY')).toEqual([1])
})

test.each(['/secret/KEY', '/secret/KEY?purge=true'])(
  'a secret deleted meanwhile by DELETE %s does not come back',
  async (path) => {
    expect(await restoreDuring(['DELETE', path])).toBe(404)
    expect(await project.state('development')).toEqual({ OTHER: 'other' })
  },
)
