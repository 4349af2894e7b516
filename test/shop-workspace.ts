import { expect } from 'vitest'
import { createProject, type TestService } from './harness.ts'

/** Another workspace of the same name as its slug, with the project `shop`. Returns its id. */
export async function createShopWorkspace(service: TestService, session: string, slug: string): Promise<string> {
  const { body, status, text } = await service.call<{ id: string }>('POST', '/v1/workspace', {
    token: session,
    body: { name: slug, slug },
  })
  expect(status, text).toBe(201)
  await createProject(service, session, 'shop', { workspace: slug })
  return body.id
}
