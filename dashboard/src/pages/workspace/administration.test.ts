/** Teams and the settings of a workspace, for those who may change them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  addUser,
  createTeam,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createShopWorkspace } from '../../../../test/shop-workspace.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const newWorkspace = (slug: string) => createShopWorkspace(service, owner.session, slug)

test('a team is renamed, and deleted once it has no projects', async () => {
  await newWorkspace('teams')
  await createTeam(service, owner.session, 'Old name', 'teams')
  const page = await openPage(service, { session: owner.session, path: '/teams', expectedErrors: [/409/] })
  await page.getByRole('button', { name: 'Team Old name' }).click()
  await expectAccessible(page)
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('dialog').getByLabel('Name').fill('New name')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('heading', { name: 'New name' }).waitFor()
  await page.getByRole('button', { name: 'Team Everyone' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Delete team' }).click()
  await page.getByText('This team has projects: move or delete them first.').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Team New name' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Delete team' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('heading', { name: 'New name' }).waitFor({ state: 'detached' })
})

test('an admin of one team changes that team, and nothing of the whole workspace', async () => {
  const workspaceId = await newWorkspace('scoped')
  const teamId = await createTeam(service, owner.session, 'Mine', 'scoped')
  const scope = { all: false, teams: [teamId], projects: [], environments: [] }
  const { session } = await addUser(service, 'scoped@example.com', { workspaceId, role: 'admin', scope })
  const page = await openPage(service, { session, path: '/scoped' })
  await page.getByRole('heading', { name: 'Create your first project' }).waitFor()
  expect(await page.getByRole('button', { name: 'New team' }).count()).toBe(0)
  expect(await page.getByRole('link', { name: 'Settings' }).count()).toBe(0)
  await page.getByLabel('Name').fill('Own')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.waitForURL('/scoped/own')
})

test('the settings rename a workspace, hand it over, and delete it after its slug is typed', async () => {
  const workspaceId = await newWorkspace('settings')
  await addUser(service, 'heir@example.com', { workspaceId, role: 'admin' })
  const expectedErrors = [/403/]
  const page = await openPage(service, { session: owner.session, path: '/settings/-/settings', expectedErrors })
  await page.getByLabel('Name').fill('Moved')
  expect(await page.getByText('.coffer.json').count()).toBe(0)
  await page.getByLabel('Slug').fill('moved')
  await page.getByText('.coffer.json').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.waitForURL('/moved/-/settings')
  await page.getByRole('button', { name: 'Delete workspace' }).click()
  const remove = page.getByRole('button', { name: 'Delete Moved' })
  await page.getByLabel('Your password').fill(password)
  await page.getByLabel('Type moved to confirm').fill('move')
  expect(await remove.isDisabled()).toBe(true)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Cancel' }).click()

  await page.getByLabel('New owner').selectOption('heir@example.com')
  await page.getByRole('button', { name: 'Hand over' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  const handOver = page.getByRole('button', { name: 'Hand over ownership' })
  expect(await handOver.isDisabled()).toBe(true)
  await page.getByLabel('Your password').fill('not the password')
  await handOver.click()
  await page.getByText('is wrong').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Your password').fill(password)
  await handOver.click()
  await page.getByText('heir@example.com is the owner now.').waitFor()
  await page.getByRole('button', { name: 'Delete workspace' }).waitFor({ state: 'detached' })

  await newWorkspace('doomed')
  const doomed = await openPage(service, { session: owner.session, path: '/doomed/-/settings' })
  await doomed.getByRole('button', { name: 'Delete workspace' }).click()
  await doomed.getByLabel('Type doomed to confirm').fill('doomed')
  await doomed.getByLabel('Your password').fill(password)
  await doomed.getByRole('button', { name: 'Delete doomed' }).click()
  await doomed.getByRole('heading', { name: 'Workspaces' }).waitFor()
  expect((await service.call('GET', '/v1/workspace/doomed', { token: owner.session })).status).toBe(404)
})
