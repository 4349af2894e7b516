/** Deleted secrets: who may bring them back, and who may destroy them. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let developer: TestUser
let member: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspaces = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const workspaceId = workspaces.body[0]?.id ?? ''
  developer = await addUser(service, 'developer@example.com', { workspaceId, role: 'developer' })
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
})
afterAll(() => service.stop())

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('staging', { GONE: 'canary-value', WENT: 'canary-other' })
  await project.must('DELETE', '/secret/GONE')
  await project.must('DELETE', '/secret/WENT')
})

const open = (user: TestUser, expectedErrors: readonly RegExp[] = []) =>
  openPage(service, { session: user.session, path: `/main/${project.slug}/trash`, expectedErrors })

test('a developer restores a secret with its values, and may not destroy one', async () => {
  const page = await open(developer)
  const row = page.getByRole('row', { name: /GONE/ })
  expect(await row.textContent()).toContain('in 4 weeks')
  expect(await page.getByRole('button', { name: /for good/ }).count()).toBe(0)
  await expectAccessible(page)
  await row.getByRole('button', { name: 'Restore GONE' }).click()
  await page.getByText('Restored GONE').waitFor()
  await row.waitFor({ state: 'detached' })
  expect(await project.state('staging')).toEqual({ GONE: 'canary-value' })
})

test('a secret whose name is in use again stays in the trash, and the page says why', async () => {
  await project.set('staging', { GONE: 'another' })
  const page = await open(developer, [/409/])
  await page.getByRole('button', { name: 'Restore GONE' }).click()
  expect(await page.getByRole('alert').textContent()).toContain('A secret named GONE already exists')
  expect(await project.state('staging')).toEqual({ GONE: 'another' })
})

test('an admin destroys a secret after typing its name', async () => {
  const page = await open(owner)
  await page.getByRole('button', { name: 'Delete for good: WENT' }).click()
  const dialog = page.getByRole('dialog')
  const confirm = dialog.getByRole('button', { name: 'Delete for good' })
  await expectAccessible(page)
  await dialog.getByLabel('Type WENT to confirm').fill('GONE')
  expect(await confirm.isEnabled()).toBe(false)
  await dialog.getByLabel('Type WENT to confirm').fill('WENT')
  await confirm.click()
  await page.getByText('WENT is gone for good.').waitFor()
  const trash = await project.must<{ name: string }[]>('GET', '/secret/trash')
  expect(trash.map(({ name }) => name)).toEqual(['GONE'])
})

test('a member sees the trash, and no buttons', async () => {
  const page = await open(member)
  await page.getByRole('row', { name: /GONE/ }).waitFor()
  expect(await page.getByRole('button', { name: /Restore|Delete/ }).count()).toBe(0)
})
