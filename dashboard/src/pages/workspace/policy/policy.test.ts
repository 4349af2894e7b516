/** The policy: its owner sees who it shuts out before it holds, and people who are shut out read what to do. */
import type { Policy } from '@coffer/contract/policy'
import { openPolicy } from '@coffer/contract/policy'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import { expectAccessible, openPage } from '../../../../../test/browser.ts'
import { saveAll, typeInto } from '../../../../../test/grid-page.ts'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let ann: TestUser
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const shop = await createProject(service, owner.session, 'shop')
  const body = { environments: [shop.environments[0]?.id], secrets: [{ key: 'ONE', value: 'first' }] }
  const written = await service.call('POST', '/v1/workspace/main/project/shop/secret', { token: owner.session, body })
  expect(written.status, written.text).toBe(201)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  ann = await addUser(service, 'ann@example.com', { workspaceId, role: 'developer' })
})
afterAll(() => service.stop())
beforeEach(() => putPolicy(openPolicy))

async function putPolicy(policy: Policy): Promise<void> {
  const answer = await service.call('PUT', '/v1/workspace/main/policy', { token: owner.session, body: policy })
  expect(answer.status, answer.text).toBe(200)
}

const stored = async () =>
  (await service.call<Policy>('GET', '/v1/workspace/main/policy', { token: owner.session })).body
const openSettings = (expectedErrors: readonly RegExp[] = []) =>
  openPage(service, { session: owner.session, path: '/main/-/settings', expectedErrors })
const section = (page: Page) => page.locator('section').filter({ has: page.getByRole('heading', { name: 'Policy' }) })

test('the owner fills in every rule, and it is stored as it was written', async () => {
  const page = await openSettings()
  const form = section(page)
  await form.getByLabel('Only from these addresses').fill('127.0.0.1, 192.0.2.0/24')
  await form.getByLabel('Longest life of a token').fill('90')
  await form.getByLabel('Longest life of a share').fill('7')
  await form.getByLabel('Only shares that are encrypted in the browser').check()
  await expectAccessible(page)
  await form.getByRole('button', { name: 'Save policy' }).press('Enter')
  await page.getByText('The policy is saved.').waitFor()
  expect(await stored()).toEqual({
    requireMfa: false,
    requireVerifiedEmail: false,
    allowedIps: ['127.0.0.1', '192.0.2.0/24'],
    maxTokenDays: 90,
    sharing: { enabled: true, maxDays: 7, endToEndOnly: true },
  })
  await page.reload()
  expect(await form.getByLabel('Only from these addresses').inputValue()).toBe('127.0.0.1\n192.0.2.0/24')
  expect(await form.getByRole('button', { name: 'Save policy' }).isDisabled()).toBe(true)
})

test('a list of addresses without one’s own is refused beside its field', async () => {
  const page = await openSettings([/409/])
  await section(page).getByLabel('Only from these addresses').fill('192.0.2.0/24')
  await section(page).getByRole('button', { name: 'Save policy' }).click()
  await section(page).locator('.field .error').waitFor()
  expect(await section(page).locator('.field .error').textContent()).toContain('127.0.0.1')
  expect(await stored()).toEqual(openPolicy)
})

test('who would be shut out is named before anything is saved, the owner included', async () => {
  await createToken(service, ann.session, { name: 'of-ann' })
  const page = await openSettings([/403/])
  const form = section(page)
  await form.getByLabel('People need a second factor').check()
  await form.getByText('You have no second factor yourself').waitFor()
  await form.getByRole('button', { name: 'Who would be shut out?' }).click()
  const names = form.getByRole('list', { name: 'Shut out' })
  await names.getByText('ann@example.com').first().waitFor()
  expect(await names.textContent()).toMatch(/of-ann.*token/)
  expect(await names.textContent()).toContain(owner.email)
  await expectAccessible(page)
  // Another rule, another list.
  await form.getByLabel('People need a second factor').uncheck()
  await names.waitFor({ state: 'detached' })
  await form.getByLabel('People need a second factor').check()
  await form.getByRole('button', { name: 'Save policy' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('ann@example.com').first().waitFor()
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  expect(await stored()).toEqual(openPolicy)
})

test('whoever is shut out reads the reason on every page, and comes in again after the remedy', async () => {
  const eve = await addUser(service, 'eve@example.com', { workspaceId, role: 'developer' })
  await setUpTotp(service, owner.session)
  await putPolicy({ ...openPolicy, requireMfa: true })
  const page = await openPage(service, {
    session: eve.session,
    path: '/',
    expectedErrors: [/403/, /requires a second factor/],
  })
  for (const path of ['/', '/main', '/main/shop', '/main/-/access/tokens', '/main/shop/compare']) {
    await page.goto(path)
    await page.getByRole('heading', { name: 'does not let you in at the moment' }).waitFor()
    await page.getByText('This workspace requires a second factor').waitFor()
    expect(await page.getByRole('main').getByRole('button').allTextContents(), path).toEqual(['Try again'])
  }
  await expectAccessible(page)
  await page.getByRole('link', { name: 'Go to your account' }).click()
  await page.getByRole('heading', { name: 'Authenticator app' }).waitFor()
  await setUpTotp(service, eve.session)
  await page.goto('/main/shop')
  await page.getByRole('link', { name: 'Secrets' }).waitFor()
})

test('whoever is shut out while they edit reads the reason, and keeps the edit', async () => {
  const fay = await addUser(service, 'fay@example.com', { workspaceId, role: 'developer' })
  const page = await openPage(service, { session: fay.session, path: '/main/shop', expectedErrors: [/403/] })
  await page.getByRole('rowheader', { name: 'ONE' }).waitFor()
  await typeInto(page, 'ONE', 0, 'typed before')
  await putPolicy({ ...openPolicy, requireMfa: true })
  await saveAll(page)
  await page.getByRole('dialog').getByRole('alert').getByText('requires a second factor').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Back' }).click()
  await page.getByRole('main').getByRole('alert').getByText('requires a second factor').waitFor()
  await putPolicy(openPolicy)
  expect(await page.getByRole('button', { name: 'Review and save' }).count()).toBe(1)
})

test('the rules about sharing and tokens are said beside their fields', async () => {
  await putPolicy({ ...openPolicy, maxTokenDays: 30, sharing: { enabled: true, maxDays: 1, endToEndOnly: false } })
  const bob = await addUser(service, 'bob@example.com', { workspaceId, role: 'developer' })
  const page = await openPage(service, {
    ...{ session: bob.session, path: '/main/-/access/tokens', expectedErrors: [/403/] },
  })
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByLabel('Name').fill('long')
  await page.getByLabel('shop project').check()
  await page.getByRole('button', { name: 'Create token' }).click()
  await page.locator('.field .error').waitFor()
  expect(await page.locator('.field .error').textContent()).toContain('30 days')
  await page.goto('/main/shop/shares')
  await page.getByRole('button', { name: 'New share' }).click()
  await page.getByLabel('Share', { exact: true }).selectOption('text')
  await page.getByLabel('Text').fill('a text')
  await page.getByLabel('Ends after').selectOption({ label: '7 days' })
  await page.getByRole('button', { name: 'Create the link' }).click()
  await page.locator('.field .error').waitFor()
  expect(await page.locator('.field .error').textContent()).toContain('1 day')
})

test('an admin who is not the owner sees no policy', async () => {
  const admin = await addUser(service, 'admin@example.com', { workspaceId, role: 'admin' })
  const page = await openPage(service, { session: admin.session, path: '/main/-/settings' })
  await page.getByRole('heading', { name: 'Teams' }).waitFor()
  expect(await page.getByRole('heading', { name: 'Policy' }).count()).toBe(0)
})
