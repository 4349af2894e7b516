/** A large import yields the event loop between the pieces that it parses. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createProject, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'

let service: TestService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('other requests are answered while a file of comments is parsed', async () => {
  const { session } = await registerOwner(service)
  const project = await createProject(service, session, 'api')
  const [environment] = project.environments
  const answered: string[] = []
  const body = { environmentId: environment?.id, format: 'yaml', content: '#\n'.repeat(90_000), mode: 'upsert' }
  const path = '/v1/workspace/main/project/api/secret/import'
  const importing = service.call('POST', path, { token: session, body }).then(({ status, text }) => {
    answered.push(`import ${status}`)
    expect(status, text).toBe(200)
  })
  // These requests run one after the other; all of them fit between the pieces.
  for (let asked = 0; asked < 5; asked++) {
    const { status } = await service.call('GET', '/v1/workspace', { token: session })
    answered.push(`list ${status}`)
  }
  await importing
  expect(answered).toEqual([...Array.from({ length: 5 }, () => 'list 200'), 'import 200'])
})
