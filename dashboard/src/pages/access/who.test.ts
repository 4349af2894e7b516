/** Who can do what: the page shows the rights of everybody, says why, and gives the same as a file. */
import { readFileSync } from 'node:fs'
import { openPolicy } from '@coffer/contract/policy'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../test/authenticator.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let shop: TestProject

const path = '/main/-/access/who?project=shop'
const rights = ['ann@example.com', 'None', 'Write', 'Read'] as const

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'blog')
  shop = await createProject(service, owner.session, 'shop')
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  const at = (name: string) => ({
    ...{ all: false, teams: [], projects: [] },
    environments: [shop.environments.find((environment) => environment.name === name)?.id ?? ''],
  })
  const ann = await addUser(service, 'ann@example.com', {
    ...{ workspaceId, role: 'developer', scope: at('staging') },
    further: [{ role: 'member', scope: at('production') }],
  })
  await createToken(service, ann.session, { name: 'ci', permission: 'read', scope: at('staging') })
  const grants = [{ role: 'member', scope: at('production') }]
  const body = { name: 'deploy', grants }
  const made = await service.call('POST', '/v1/workspace/main/service-account', { token: owner.session, body })
  expect(made.status, made.text).toBe(201)
})
afterAll(() => service.stop())

test('each environment shows the right of each actor in words, and a press says why', async () => {
  const page = await openPage(service, { session: owner.session, path })
  const row = page.getByRole('row', { name: /^ann@example.com/ })
  await row.waitFor()
  const [name, ...cells] = rights
  const columns = await page.getByRole('columnheader').allTextContents()
  expect(columns).toEqual(['Who', 'development', 'staging', 'production'])
  const buttons = await row.getByRole('button').all()
  const shown = await Promise.all(buttons.map((button) => button.getAttribute('aria-label')))
  expect(shown).toEqual(cells.map((cell, index) => `${cell}: ${name} in ${columns[index + 1]}`))
  expect(await page.getByRole('row', { name: /^ci/ }).textContent()).toContain('token of ann@example.com')
  await expectAccessible(page)
  await row.getByRole('button', { name: 'Write: ann@example.com in staging' }).press('Enter')
  const drawer = page.getByRole('dialog')
  await drawer.getByText('yes', { exact: true }).waitFor()
  expect(await drawer.textContent()).toMatch(/may write secrets/)
  await expectAccessible(page)
  await drawer.getByLabel('Can they …?').selectOption({ label: 'Change the environment' })
  await drawer.getByText('no', { exact: true }).waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  await row.getByRole('button', { name: 'None: ann@example.com in development' }).click()
  await drawer.getByText('A request would get the status 404.').waitFor()
})

test('filters narrow the list and the file', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByRole('row', { name: /^ci/ }).waitFor()
  await page.getByLabel('Show').selectOption({ label: 'Service accounts' })
  await page.getByRole('row', { name: /^ci/ }).waitFor({ state: 'detached' })
  expect(await page.getByRole('rowheader').count()).toBe(1)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export as CSV' }).click(),
  ])
  expect(file.suggestedFilename()).toBe('access-shop.csv')
  expect(readFileSync(await file.path(), 'utf8')).toBe(
    'Name,Kind,Owner,development,staging,production,Problem\r\ndeploy,service account,,none,none,read,\r\n',
  )
  await page.getByLabel('Show').selectOption({ label: 'Everybody' })
  await page.getByLabel('Filter by name').fill('nobody is called so')
  await page.getByText('Nobody fits this filter.').waitFor()
})

test('another project has its own list', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByRole('row', { name: /^ci/ }).waitFor()
  await page.getByLabel('Project').selectOption({ label: 'blog' })
  await page.getByRole('region', { name: 'Access to blog' }).waitFor()
  expect(await page.getByRole('row', { name: /^ann/ }).count()).toBe(0)
  expect(new URL(page.url()).searchParams.get('project')).toBe('blog')
})

test('nobody but admins of the whole workspace sees it', async () => {
  const scope = { all: false, teams: [], projects: [shop.id], environments: [] }
  const narrow = await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope })
  const page = await openPage(service, { session: narrow.session, path })
  await page.getByText('You cannot see the access of others').waitFor()
  expect(await page.getByRole('link', { name: 'Who can…?' }).count()).toBe(0)
})

test('an actor whom the policy shuts out has the reason beside the name', async () => {
  await setUpTotp(service, owner.session)
  const body = { ...openPolicy, requireMfa: true }
  const put = await service.call('PUT', '/v1/workspace/main/policy', { token: owner.session, body })
  expect(put.status, put.text).toBe(200)
  const page = await openPage(service, { session: owner.session, path })
  for (const name of [/^ann@example.com/, /^ci/]) {
    const row = page.getByRole('row', { name })
    await row.locator('.who-problem').waitFor()
    expect(await row.locator('.who-problem').textContent()).toContain('second factor')
  }
  expect(await page.getByRole('row', { name: owner.email }).locator('.who-problem').count()).toBe(0)
  await expectAccessible(page)
})
