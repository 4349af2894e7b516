/** Revisions of an environment, and bringing it back to one of them. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { expectAccessible, holdRequests, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let member: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspaces = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const workspaceId = workspaces.body[0]?.id ?? ''
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
})
afterAll(() => service.stop())

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('production', { DATABASE_URL: 'canary-first', OLD: 'canary-old' }, { message: 'first values' })
  await project.set('production', { DATABASE_URL: 'canary-second', NEW: 'canary-new' })
  await project.remove('production', 'OLD')
})

const path = () => `/main/${project.slug}/history?environment=production`

test('a developer sees what restoring would do, and brings the environment back', async () => {
  const page = await openPage(service, { session: owner.session, path: path() })
  const first = page.getByRole('row', { name: /first values/ })
  await first.waitFor()
  expect(await first.textContent()).toContain('owner@example.com')
  expect(await first.textContent()).toContain('2 keys created')
  expect(await page.getByRole('row', { name: /Revision 2/ }).textContent()).toContain('+1')
  await expectAccessible(page)

  await page.getByRole('button', { name: 'Revision 1' }).click()
  const drawer = page.getByRole('dialog', { name: 'Revision 1 of production' })
  await drawer.getByText('1 key deleted').waitFor()
  expect(await drawer.getByRole('listitem').filter({ hasText: '1 key created' }).textContent()).toContain('OLD')
  expect(await drawer.getByRole('listitem').filter({ hasText: '1 key changed' }).textContent()).toContain(
    'DATABASE_URL',
  )
  await expectAccessible(page)
  expect(await page.content()).not.toContain('canary')

  const restore = drawer.getByRole('button', { name: 'Restore revision 1' })
  expect(await restore.isEnabled()).toBe(false)
  await drawer.getByLabel('Type production to confirm').fill('production')
  const { asked, release } = await holdRequests(page, /\/revision\?/)
  await restore.click()
  // The drawer stays until the page behind it shows the new revision.
  await asked
  await page.keyboard.press('Escape')
  expect(await drawer.isVisible()).toBe(true)
  release()
  await page.getByText('production is as it was after revision 1').waitFor()
  expect(await project.state('production')).toEqual({ DATABASE_URL: 'canary-first', OLD: 'canary-old' })
  await page.getByRole('button', { name: 'Revision 4' }).waitFor()
})

test('a member reads the history, and is offered no restore', async () => {
  const page = await openPage(service, { session: member.session, path: path() })
  await page.getByRole('button', { name: 'Revision 1' }).click()
  const drawer = page.getByRole('dialog')
  await drawer.getByText('It changed 2 keys').waitFor()
  expect(await drawer.getByRole('button').allTextContents()).toEqual([''])
  expect(await drawer.getByLabel(/Type production/).count()).toBe(0)
})

test('long histories are loaded page by page', async () => {
  for (let round = 0; round < 51; round += 1) await project.set('staging', { COUNT: String(round) })
  const page = await openPage(service, { session: member.session, path: path() })
  await page.getByRole('button', { name: 'Revision 3' }).waitFor()
  await page.getByLabel('Environment').selectOption('staging')
  await page.getByRole('button', { name: 'Revision 51' }).waitFor()
  expect(await page.getByRole('button', { name: 'Revision 1', exact: true }).count()).toBe(0)
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByRole('button', { name: 'Revision 1', exact: true }).waitFor()
  expect(await page.getByRole('button', { name: 'Load more' }).count()).toBe(0)
})
