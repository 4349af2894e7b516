/** The settings of a project: environments, name, team, and its end. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  addUser,
  createProject,
  createTeam,
  registerOwner,
  startService,
  type TestService,
} from '../../../../test/harness.ts'

let service: TestService
let session: string

beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
})
afterAll(() => service.stop())

const listEnvironments = async (prj: string) =>
  (await service.call('GET', `/v1/workspace/main/project/${prj}/environment`, { token: session })).body

test('environments are created, renamed, opened for personal values, and deleted after their name is typed', async () => {
  await createProject(service, session, 'places')
  const page = await openPage(service, { session, path: '/main/places/settings', expectedErrors: [/400/, /409/] })
  await page.getByRole('row', { name: /staging/ }).waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'New environment' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  const name = page.getByRole('dialog').getByLabel('Name')
  await name.fill('-wrong-')
  await page.getByRole('button', { name: 'Create environment' }).click()
  await page.getByText('Has characters or a format that is not allowed.').waitFor()
  await name.fill('Staging')
  await page.getByRole('button', { name: 'Create environment' }).click()
  await page.getByText(/already/).waitFor()
  await name.fill('preview')
  await page.getByRole('button', { name: 'Create environment' }).click()
  await page.getByRole('row', { name: /preview/ }).waitFor()

  await page.getByLabel('allowed in preview').check()
  await page.getByRole('button', { name: 'Environment preview' }).click()
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await name.fill('review')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('row', { name: /review/ }).waitFor()
  const before = [{ name: 'development' }, { name: 'staging' }, { name: 'production' }]
  await expect
    .poll(() => listEnvironments('places'))
    .toMatchObject([...before, { name: 'review', hasPersonalOverrides: true }])

  await page.getByRole('button', { name: 'Environment production' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  const remove = page.getByRole('button', { name: 'Delete production' })
  expect(await remove.isDisabled()).toBe(true)
  await expectAccessible(page)
  await page.getByLabel('Type production to confirm').fill('production')
  await remove.click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('row', { name: /production/ }).waitFor({ state: 'detached' })
  expect(await listEnvironments('places')).toMatchObject([before[0], before[1], { name: 'review' }])
})

test('a project is renamed, moved to another team, and deleted after its slug is typed', async () => {
  await createProject(service, session, 'mobile')
  await createTeam(service, session, 'Platform')
  const page = await openPage(service, { session, path: '/main/mobile/settings', expectedErrors: [/400/] })
  await page.getByLabel('Slug').fill('secret')
  await page.getByText('stops working until you change it there').waitFor()
  const save = page.getByRole('button', { name: 'Save' })
  await save.click()
  await page.getByText('"secret" is a reserved word.').waitFor()
  await page.getByLabel('Name').fill('Phone')
  await page.getByLabel('Slug').fill('phone')
  await save.click()
  await page.waitForURL('/main/phone/settings')
  await page.getByRole('heading', { name: 'Phone', exact: true }).waitFor()
  await page.getByLabel('Team').selectOption('Platform')
  await page.getByRole('button', { name: 'Move' }).click()
  await page.getByText('The project has moved.').waitFor()
  const groups = (await service.call('GET', '/v1/workspace/main/project', { token: session })).body
  expect(groups).toContainEqual(
    expect.objectContaining({ name: 'Platform', projects: [expect.objectContaining({ slug: 'phone' })] }),
  )

  await page.getByRole('button', { name: 'Delete project' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByText('development: 0 secrets').waitFor()
  const remove = page.getByRole('button', { name: 'Delete Phone' })
  await page.getByLabel('Type phone to confirm').fill('Phone')
  expect(await remove.isDisabled()).toBe(true)
  await page.getByLabel('Type phone to confirm').fill('phone')
  await remove.click()
  await page.waitForURL('/main')
  expect((await service.call('GET', '/v1/workspace/main/project/phone', { token: session })).status).toBe(404)
})

test('an admin of one environment changes that environment, and nothing of the project', async () => {
  const { environments } = await createProject(service, session, 'part')
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
  const scope = { all: false, teams: [], projects: [], environments: [environments[1]?.id ?? ''] }
  const member = { workspaceId: workspace.body.id, role: 'admin', scope } as const
  const admin = await addUser(service, 'part@example.com', member)
  const page = await openPage(service, { session: admin.session, path: '/main/part/settings' })
  await page.getByLabel('allowed in staging').check()
  expect(await page.getByRole('row', { name: /development|production/ }).count()).toBe(0)
  expect(await page.getByRole('button', { name: /New environment|Save|Delete project|Move/ }).count()).toBe(0)
  await expect
    .poll(() => listEnvironments('part'))
    .toContainEqual(expect.objectContaining({ name: 'staging', hasPersonalOverrides: true }))
})
