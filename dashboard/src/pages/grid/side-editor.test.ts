/** Whose value the side editor changes, and that it changes nothing else. */
import type { Secret } from '@coffer/contract/secret'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cellOf, focusCell, openGrid, saveAll } from '../../../../test/grid-page.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

/** The shared value and one's own, as they are stored. */
async function valuesOf(project: SecretProject, name: string): Promise<unknown[]> {
  const { values } = await project.must<Secret>('GET', `/secret/${name}?environmentId=development`)
  return values.map(({ value, isPersonal }) => (isPersonal ? { own: value } : value))
}

async function openEditor(page: Page, name: string): Promise<Locator> {
  await focusCell(page, name, 0)
  await page.keyboard.press('e')
  return page.getByRole('dialog', { name: `${name} in development` })
}

test('a look at one’s own side of a value makes none there', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { ONE: 'old' })
  const page = await openGrid(service, project, { session: owner.session })
  const drawer = await openEditor(page, 'ONE')
  await drawer.getByLabel('Just for me').check()
  await drawer.getByLabel('Your own value').waitFor()
  await drawer.getByLabel('For everyone').check()
  await drawer.getByLabel('Value', { exact: true }).fill('new')
  await drawer.getByRole('button', { name: 'Keep change' }).click()
  await saveAll(page)
  await page.getByText('Saved 1 change in development.').waitFor()
  expect(await valuesOf(project, 'ONE')).toEqual(['new'])
})

test('removing one’s own value never removes the shared one, and the shared one is seen again', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { ONE: 'shared text' })
  await project.must('PUT', '/secret/ONE/value', { environmentId: 'development', value: 'mine', isPersonal: true })
  const page = await openGrid(service, project, { session: owner.session })
  await focusCell(page, 'ONE', 0)
  await page.keyboard.press('Delete')
  await page.getByText('1 change in development').waitFor()
  const drawer = await openEditor(page, 'ONE')
  await drawer.getByLabel('Just for me').check()
  await drawer.getByRole('button', { name: 'Remove my value' }).click()
  await drawer.waitFor({ state: 'detached' })
  await focusCell(page, 'ONE', 0)
  await page.keyboard.press('Space')
  await cellOf(page, 'ONE', 0).getByText('shared text').waitFor()
  await saveAll(page)
  await page.getByText('Saved 1 change in development.').waitFor()
  expect(await valuesOf(project, 'ONE')).toEqual(['shared text'])
})

test('the line ends of Windows survive an edit', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'first\r\nsecond\r\n' })
  const page = await openGrid(service, project, { session: owner.session })
  const drawer = await openEditor(page, 'ONE')
  await drawer.getByLabel('Value', { exact: true }).fill('first\nsecond\nthird\n')
  await drawer.getByRole('button', { name: 'Keep change' }).click()
  await saveAll(page)
  await page.getByText('Saved 1 change in development.').waitFor()
  expect(await valuesOf(project, 'ONE')).toEqual(['first\r\nsecond\r\nthird\r\n'])
})
