/** Service accounts: created with a token that is shown once, changed, given tokens of people, and removed. */
import type { ServiceAccount } from '@coffer/contract/service-account'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
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

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  shop = await createProject(service, owner.session, 'shop')
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const path = '/main/-/access/service-accounts'
const list = '/v1/workspace/main/service-account'
const secrets = '/v1/workspace/main/project/shop/secret'
const at = (environment: string) => ({
  ...{ all: false, teams: [], projects: [] },
  environments: [shop.environments.find(({ name }) => name === environment)?.id ?? ''],
})

async function accountOf(name: string): Promise<ServiceAccount | undefined> {
  const { body } = await service.call<ServiceAccount[]>('GET', list, { token: owner.session })
  return body.find((account) => account.name === name)
}

async function addAccount(name: string, role: 'member' | 'developer', environment: string): Promise<ServiceAccount> {
  const body = { name, grants: [{ role, scope: at(environment) }] }
  const answer = await service.call<ServiceAccount>('POST', list, { token: owner.session, body })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

async function choose(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}`, exact: true }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

const read = (token: string, environment: string) =>
  service.call('GET', `${secrets}?environmentId=${environment}`, { token })

test('a new account goes on to its first token, which is shown once and works', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByText('No service accounts yet').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'New service account' }).click()
  await page.getByLabel('Name').fill('deploy')
  const create = page.getByRole('button', { name: 'Create, then its first token' })
  expect(await create.isDisabled()).toBe(true)
  await page.getByLabel('staging environment').check()
  await expectAccessible(page)
  await create.click()
  await page.getByRole('heading', { name: 'New token of deploy' }).waitFor()
  // What the account can do is what its first token usually should.
  expect(await page.getByLabel('Name').inputValue()).toBe('deploy')
  expect(await page.getByRole('checkbox', { name: 'staging environment' }).isChecked()).toBe(true)
  expect(await page.getByRole('checkbox', { name: 'production environment' }).count()).toBe(0)
  expect(await page.getByRole('radio', { name: /Read and write/ }).count()).toBe(0)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Create token' }).click()
  const field = page.getByLabel('Token', { exact: true })
  const value = await field.inputValue()
  await page.getByRole('button', { name: 'Done' }).click()
  await field.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(value)
  expect((await read(value, 'staging')).status).toBe(200)
  expect((await read(value, 'production')).status).toBe(404)
  expect(await page.getByRole('row', { name: /^deploy/ }).textContent()).toMatch(/Member: shop \/ staging\s*1/)
})

test('grants change, and the tokens of the account follow them', async () => {
  await addAccount('widened', 'member', 'staging')
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, 'widened', 'Change')
  await page.getByRole('button', { name: 'Another role for another part' }).click()
  await page.getByRole('radio', { name: /^Developer/ }).check()
  await page.getByLabel('development environment').check()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const line = 'Member: shop / staging · Developer: shop / development'
  expect(await page.getByRole('row', { name: 'widened' }).textContent()).toContain(line)
  expect((await accountOf('widened'))?.grants).toEqual([
    { role: 'member', scope: at('staging') },
    { role: 'developer', scope: at('development') },
  ])
  await choose(page, 'widened', 'New token')
  await page.getByRole('radio', { name: /Read and write/ }).check()
  await page.getByLabel('development environment').uncheck()
  await page.getByText('widened can only read in this scope').waitFor()
  expect(await page.getByRole('button', { name: 'Create token' }).isDisabled()).toBe(true)
})

test('a token that expires within 14 days is warned of, on both pages', async () => {
  const { id } = await addAccount('hasty', 'member', 'staging')
  const body = { name: 'short', permission: 'read', scope: at('staging'), expiresIn: '5d' }
  const made = await service.call('POST', `${list}/${id}/tokens`, { token: owner.session, body })
  expect(made.status, made.text).toBe(201)
  const page = await openPage(service, { session: owner.session, path })
  await page.getByText('A token of hasty expires within 14 days').waitFor()
  expect(await page.getByRole('row', { name: 'hasty' }).textContent()).toContain('in 4 days')
  await page.goto('/main/-/access/tokens')
  const row = page.getByRole('row', { name: 'short' })
  await row.locator('.badge.warn').waitFor()
  expect(await row.textContent()).toContain('hastyservice account')
  await expectAccessible(page)
})

test('an admin gives a token of a person to an account, and reads why that is refused', async () => {
  const dev = await addUser(service, 'dev@example.com', { workspaceId, role: 'developer' })
  const { token } = await createToken(service, dev.session, { name: 'moved', permission: 'read', scope: at('staging') })
  await addAccount('narrow', 'member', 'production')
  await addAccount('fitting', 'member', 'staging')
  const page = await openPage(service, {
    session: owner.session,
    path: '/main/-/access/tokens',
    expectedErrors: [/409/],
  })
  await choose(page, 'moved', 'Transfer')
  await page.getByLabel('Service account').selectOption({ label: 'narrow' })
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Transfer' }).click()
  expect(await page.getByRole('alert').textContent()).toMatch(/narrow/)
  await page.getByLabel('Service account').selectOption({ label: 'fitting' })
  await page.getByRole('button', { name: 'Transfer' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await page.getByRole('row', { name: 'moved' }).textContent()).toContain('fittingservice account')
  expect(
    (await service.call('DELETE', `/v1/workspace/main/rbac/${dev.memberId}`, { token: owner.session })).status,
  ).toBe(200)
  expect((await read(token, 'staging')).status).toBe(200)
})

test('removing an account names what ends, and takes nothing before it is confirmed', async () => {
  const { id } = await addAccount('leaving', 'member', 'staging')
  const body = { name: 'of-leaving', permission: 'read', scope: at('staging'), expiresIn: '60d' }
  const made = await service.call<{ token: string }>('POST', `${list}/${id}/tokens`, { token: owner.session, body })
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, 'leaving', 'Remove')
  const dialog = page.getByRole('dialog')
  const line = dialog.getByRole('listitem').filter({ hasText: 'token of-leaving' })
  await line.waitFor()
  expect(await line.textContent()).toContain('shop / staging, never used')
  expect(await dialog.getByRole('option', { name: 'leaving' }).count()).toBe(0)
  await expectAccessible(page)
  expect((await read(made.body.token, 'staging')).status).toBe(200)
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('row', { name: 'leaving' }).waitFor({ state: 'detached' })
  expect((await read(made.body.token, 'staging')).status).toBe(401)
})

test('admins of a part, and everybody else, are told whom to ask', async () => {
  const scope = { all: false, teams: [], projects: [shop.id], environments: [] }
  const narrow = await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope })
  const page = await openPage(service, { session: narrow.session, path })
  await page.getByText('You cannot see the service accounts of this workspace').waitFor()
  expect(await page.getByRole('button', { name: 'New service account' }).count()).toBe(0)
})
