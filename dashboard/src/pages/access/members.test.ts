/** Members and invites: what an admin does on the page holds for the service. */
import type { Member } from '@coffer/contract/member'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  addUser,
  createProject,
  password,
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
  await createProject(service, owner.session, 'mailer')
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const path = '/main/-/access/members'
const rowOf = (page: Page, email: string) => page.getByRole('row', { name: email })

async function memberOf(email: string): Promise<Member | undefined> {
  const { body } = await service.call<Member[]>('GET', '/v1/workspace/main/rbac', { token: owner.session })
  return body.find(({ user }) => user.email === email)
}

async function choose(page: Page, email: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${email}` }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

test('an invite for one environment is a link that works once, with exactly that scope', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByLabel('Email').fill('ann@example.com')
  await page.getByRole('radio', { name: /^Member/ }).check()
  await page.getByLabel('Chosen teams, projects or environments').check()
  expect(await page.getByRole('button', { name: 'Invite', exact: true }).isDisabled()).toBe(true)
  await page.getByRole('button', { name: 'Parts of shop' }).click()
  await page.getByLabel('staging environment').check()
  await page.getByText('Reaches 1 of 2 projects, 1 of 6 environments:').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Invite', exact: true }).click()
  const link = page.getByLabel('Invite link')
  const url = await link.inputValue()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Done' }).click()
  await link.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(new URL(url).hash.slice(1))
  expect(await rowOf(page, 'ann@example.com').textContent()).toMatch(/Member.*shop \/ staging.*Invited/)

  const inviteToken = new URL(url).hash.slice(1)
  const body = { email: 'ann@example.com', name: 'Ann', password, inviteToken }
  expect(await service.call('POST', '/v1/auth/register', { body })).toMatchObject({ status: 201 })
  const staging = shop.environments.find(({ name }) => name === 'staging')?.id
  const scope = { all: false, teams: [], projects: [], environments: [staging] }
  expect(await memberOf('ann@example.com')).toMatchObject({ role: 'member', scope, status: 'account-created' })
})

test('a new link ends the old one, and a withdrawn invite is gone', async () => {
  const page = await openPage(service, { session: owner.session, path })
  const body = { email: 'bob@example.com', role: 'developer', scope: { all: true } }
  const first = await service.call<{ inviteToken: string }>('POST', '/v1/workspace/main/rbac', {
    token: owner.session,
    body,
  })
  await page.reload()
  await choose(page, 'bob@example.com', 'New link')
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Make a new link' }).click()
  const url = await page.getByLabel('Invite link').inputValue()
  const look = (token: string) => service.call('POST', '/v1/workspace/invite/lookup', { body: { token } })
  expect((await look(first.body.inviteToken)).status).toBe(404)
  expect((await look(new URL(url).hash.slice(1))).status).toBe(200)
  await page.getByRole('button', { name: 'Done' }).click()
  await choose(page, 'bob@example.com', 'Withdraw invite')
  await page.getByRole('button', { name: 'Withdraw', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await rowOf(page, 'bob@example.com').waitFor({ state: 'detached' })
  expect(await memberOf('bob@example.com')).toBeUndefined()
})

test('role and scope of a member change, and a removed member is out', async () => {
  const email = 'carl@example.com'
  const carl = await addUser(service, email, { workspaceId, role: 'developer' })
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, email, 'Change access')
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('radio', { name: /^Admin/ }).check()
  await page.getByLabel('Chosen teams, projects or environments').check()
  await page.getByLabel('Everyone team').check()
  await page.getByLabel('mailer project').uncheck()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await rowOf(page, email).textContent()).toMatch(/Admin.*shop/)
  const scope = { all: false, teams: [], projects: [shop.id], environments: [] }
  expect(await memberOf(email)).toMatchObject({ role: 'admin', scope })
  await choose(page, email, 'Remove')
  await page.getByText('No token and no sync ends by this.').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Remove', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await rowOf(page, email).waitFor({ state: 'detached' })
  expect((await service.call('GET', '/v1/workspace/main', { token: carl.session })).status).toBe(404)
})

test('several grants are given, read and taken away by keyboard, each with its own scope', async () => {
  const email = 'eve@example.com'
  await addUser(service, email, { workspaceId, role: 'developer' })
  const [, staging, production] = shop.environments
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, email, 'Change access')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Chosen teams, projects or environments').check()
  await dialog.getByRole('button', { name: 'Parts of shop' }).click()
  await dialog.getByLabel('staging environment').check()
  await dialog.getByRole('button', { name: 'Another role for another part' }).press('Enter')
  const grants = dialog.getByRole('list', { name: 'Grants' })
  const first = grants.getByRole('button', { name: 'Developer: shop / staging', exact: true })
  expect(await first.getAttribute('aria-expanded')).toBe('false')
  // A grant that reaches nothing is not sent.
  expect(await dialog.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
  await dialog.getByLabel('Chosen teams, projects or environments').check()
  await dialog.getByRole('button', { name: 'Parts of shop' }).click()
  await dialog.getByLabel('production environment').check()
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  const line = 'Developer: shop / staging · Member: shop / production'
  expect(await rowOf(page, email).textContent()).toContain(line)
  const at = (id = '') => ({ all: false, teams: [], projects: [], environments: [id] })
  const developer = { role: 'developer', scope: at(staging?.id) }
  expect((await memberOf(email))?.grants).toEqual([developer, { role: 'member', scope: at(production?.id) }])

  await choose(page, email, 'Change access')
  await grants.getByRole('button', { name: 'Member: shop / production', exact: true }).press('Enter')
  expect(await dialog.getByRole('radio', { name: /^Member/ }).isChecked()).toBe(true)
  expect(await dialog.getByLabel('production environment').isChecked()).toBe(true)
  await grants.getByRole('button', { name: 'Remove grant 2: Member: shop / production' }).press('Enter')
  await grants.waitFor({ state: 'detached' })
  expect(await dialog.getByLabel('staging environment').isChecked()).toBe(true)
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect((await memberOf(email))?.grants).toEqual([developer])
})

test('an invite carries several grants', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByLabel('Email').fill('fay@example.com')
  await page.getByRole('radio', { name: /^Member/ }).check()
  await page.getByRole('button', { name: 'Another role for another part' }).click()
  await page.getByRole('radio', { name: /^Developer/ }).check()
  await page.getByLabel('Chosen teams, projects or environments').check()
  await page.getByLabel('shop project').check()
  await page.getByRole('button', { name: 'Invite', exact: true }).click()
  await page.getByLabel('Invite link').waitFor()
  await page.getByRole('button', { name: 'Done' }).click()
  expect(await rowOf(page, 'fay@example.com').textContent()).toContain('Member: everything · Developer: shop')
})

test('an admin is offered nothing for the owner, no reset of their own second factor, and reads why one fails', async () => {
  const admin = await addUser(service, 'admin@example.com', { workspaceId, role: 'admin' })
  const dora = await addUser(service, 'dora@example.com', { workspaceId, role: 'member' })
  const page = await openPage(service, { session: admin.session, path, expectedErrors: [/409/] })
  await rowOf(page, owner.email).waitFor()
  expect(await page.getByRole('button', { name: `Actions for ${owner.email}` }).count()).toBe(0)
  await page.getByRole('button', { name: `Actions for ${admin.email}` }).click()
  await page.getByRole('menuitem', { name: 'Change access' }).waitFor()
  expect(await page.getByRole('menuitem').allTextContents()).toEqual(['Change access', 'Remove'])
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  await choose(page, dora.email, 'Reset second factor')
  await page.getByRole('button', { name: 'Reset second factor' }).click()
  expect(await page.getByRole('alert').textContent()).toMatch(/second factor/)
})

test('people without the right to manage the workspace have a page for their tokens alone', async () => {
  const scope = { all: false, teams: [], projects: [shop.id], environments: [] }
  const people = [
    await addUser(service, 'member@example.com', { workspaceId, role: 'member' }),
    await addUser(service, 'developer@example.com', { workspaceId, role: 'developer' }),
    await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope }),
  ]
  for (const { session } of people) {
    const page = await openPage(service, { session, path })
    await page.getByText('You cannot see the members of this workspace').waitFor()
    const tabs = page.getByRole('navigation', { name: 'Access' }).getByRole('link')
    expect(await tabs.allTextContents()).toEqual(['Tokens'])
    expect((await service.call('GET', '/v1/workspace/main/rbac', { token: session })).status).toBe(403)
    expect((await service.call('GET', '/v1/workspace/main/oidc', { token: session })).status).toBe(403)
  }
})
