/** Tabs share one cookie: what happens here when another tab signs out or in. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openGrid, typeInto } from '../../../../test/grid-page.ts'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

async function signIn(email: string): Promise<string> {
  const body = { email, password }
  return (await service.call<{ accessToken: string }>('POST', '/v1/auth/login', { body })).body.accessToken
}

/** As if another tab had signed in, and somebody came back to this one. */
async function comeBack(page: Page, session: string): Promise<void> {
  const place = { domain: '127.0.0.1', path: '/', secure: true, httpOnly: true, sameSite: 'Strict' } as const
  await page.context().addCookies([{ name: '__Host-coffer_session', value: session, ...place }])
  await page.evaluate(`dispatchEvent(new Event('focus'))`)
}

test('another account sees and saves nothing of what the first one has typed', async () => {
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const other = await addUser(service, 'other@example.com', { workspaceId: body[0]?.id ?? '', role: 'developer' })
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'old' })
  const page = await openGrid(service, project, { session: owner.session })
  await typeInto(page, 'KEY', 0, 'typed by the owner')
  await page.getByText('1 change in development').waitFor()
  await comeBack(page, other.session)
  await page.waitForURL('/main')
  await page.getByText('other@example.com').waitFor()
  expect(await page.getByText('1 change').count()).toBe(0)
  expect(await project.state('development')).toEqual({ KEY: 'old' })
})

test('a session that another tab has ended is asked for here, and one that it has begun is taken', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'old' })
  const session = await signIn(owner.email)
  const page = await openGrid(service, project, { session, expectedErrors: [/401/] })
  await typeInto(page, 'KEY', 0, 'new')
  await service.call('POST', '/v1/auth/logout', { token: session })
  await comeBack(page, session)
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.waitFor()
  await comeBack(page, await signIn(owner.email))
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('1 change in development').waitFor()
})
