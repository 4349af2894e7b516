/** Workspaces, projects by team, and the settings of a workspace, for those who may change them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createShopWorkspace } from '../../../../test/shop-workspace.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const newWorkspace = (slug: string) => createShopWorkspace(service, owner.session, slug)

test('a workspace, a team and a project in it are created', async () => {
  const page = await openPage(service, {
    session: owner.session,
    path: '/?all=true',
    expectedErrors: [/400/, /409/],
  })
  await page.getByRole('button', { name: 'New workspace' }).click()
  await page.getByLabel('Name').fill('Project')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Create workspace' }).click()
  await page.getByText('"project" is a reserved word.').waitFor()
  expect(await page.getByLabel('Slug').getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('Slug').fill('main')
  await page.getByRole('button', { name: 'Create workspace' }).click()
  await page.getByText('The slug "main" is taken.').waitFor()
  await page.getByLabel('Name').fill('Acme Tools')
  await page.getByLabel('Slug').fill('acme')
  await page.getByRole('button', { name: 'Create workspace' }).click()
  await page.waitForURL('/acme')

  await page.getByRole('button', { name: 'New team' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('dialog').getByLabel('Name').fill('Platform')
  await page.getByRole('button', { name: 'Create team' }).click()
  await page.getByRole('heading', { name: 'Platform' }).waitFor()
  await expectAccessible(page)
  await page.getByLabel('Name').fill('Web Shop')
  await page.getByLabel('Team', { exact: true }).selectOption('Platform')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.waitForURL('/acme/web-shop')
  const { body } = await service.call('GET', '/v1/workspace/acme/project', { token: owner.session })
  expect(body).toMatchObject([
    { name: 'Everyone', projects: [] },
    { name: 'Platform', projects: [{ name: 'Web Shop', slug: 'web-shop' }] },
  ])
})

test('a search over all projects leads to the row of a secret, and never reads its value', async () => {
  await newWorkspace('finds')
  const body = { environmentId: 'development', format: 'dotenv', content: 'STRIPE_KEY=planted-value\nOTHER=1' }
  const path = '/v1/workspace/finds/project/shop/secret/import'
  expect((await service.call('POST', path, { token: owner.session, body })).status).toBe(200)
  const page = await openPage(service, { session: owner.session, path: '/finds' })
  // The browser drops the body of a response at its own time: each is read here, on its way to the page.
  const answers: string[] = []
  await page.route(/\/secret\?q=/, async (route) => {
    // Without this header the service would not accept the cookie.
    const headers = { ...route.request().headers(), 'sec-fetch-site': 'same-origin' }
    const response = await route.fetch({ headers })
    answers.push(await response.text())
    await route.fulfill({ response })
  })
  await page.getByRole('searchbox').fill('stripe')
  const found = page.getByRole('link', { name: 'STRIPE_KEY' })
  await found.waitFor()
  expect(answers.join()).toContain('STRIPE_KEY')
  expect(answers.join()).not.toContain('planted-value')
  await page.waitForURL('/finds?q=stripe')
  await expectAccessible(page)
  await page.getByRole('searchbox').fill('nowhere')
  await page.getByText('No secret that you can see has “nowhere” in its name.').waitFor()
  await page.getByRole('searchbox').fill('STRIPE')
  await found.click()
  await page.waitForURL(/\/finds\/shop/)
  await page.locator('[role=row]:focus-within', { hasText: 'STRIPE_KEY' }).waitFor()
  await page.getByRole('link', { name: 'Projects' }).click()
  await page.waitForURL('/finds')
  await page.getByRole('link', { name: 'Shop' }).first().waitFor()
})

test.each(['member', 'developer'] as const)('a %s is offered nothing that would be refused', async (role) => {
  const workspaceId = await newWorkspace(`for-${role}`)
  const { session } = await addUser(service, `${role}@example.com`, { workspaceId, role })
  const page = await openPage(service, { session, path: '/' })
  await page.waitForURL(`/for-${role}`)
  await page.getByRole('row', { name: /shop/ }).waitFor()
  expect(await page.getByRole('button', { name: /New|Team / }).count()).toBe(0)
  expect(await page.getByRole('link', { name: /Audit|Settings/ }).count()).toBe(0)
  await expectAccessible(page)
  await page.goto(`/for-${role}/-/settings`)
  await page.getByRole('heading', { name: 'These settings are for admins' }).waitFor()
  await page.goto(`/for-${role}/shop/settings`)
  await page.getByRole('heading', { name: 'These settings are for admins' }).waitFor()
})
