/** Two people, one key: nothing is overwritten unseen, and edits survive until they are saved or given up. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/browser.ts'
import { cellOf, focusCell, openGrid, saveAll, typeInto } from '../../../../test/grid-page.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

test('a value that somebody else has changed is a conflict, settled either way', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { MINE: 'old', THEIRS: 'old', FREE: 'old' })
  const page = await openGrid(service, project, { session: owner.session, expectedErrors: [/412/] })
  for (const name of ['MINE', 'THEIRS', 'FREE']) await typeInto(page, name, 0, 'from this tab')
  await project.set('development', { MINE: 'from the other', THEIRS: 'from the other' })
  await saveAll(page)
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('heading', { name: 'Changed by others meanwhile' }).waitFor()
  expect((await project.state('development')).FREE).toBe('old')
  const lines = dialog.getByRole('region', { name: 'Conflicts' }).getByRole('listitem')
  expect(await lines.count()).toBe(2)
  await lines.filter({ hasText: /^MINE/ }).getByText(`by ${owner.email}`).waitFor()
  await expectAccessible(page)
  await lines.filter({ hasText: /^MINE/ }).getByRole('button', { name: 'Keep mine' }).click()
  await lines
    .filter({ hasText: /^THEIRS/ })
    .getByRole('button', { name: 'Take theirs' })
    .click()
  await dialog.getByRole('button', { name: 'Save 2 changes' }).click()
  await page.getByText('Saved 2 changes in development.').waitFor()
  expect(await project.state('development')).toEqual({
    MINE: 'from this tab',
    THEIRS: 'from the other',
    FREE: 'from this tab',
  })
})

test('a review stays open until the service has answered, so that no edit is lost by its answer', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a' })
  const page = await openGrid(service, project, { session: owner.session })
  await typeInto(page, 'ONE', 0, 'new a')
  let answer = () => {}
  const held = new Promise<void>((resolve) => (answer = resolve))
  await page.route('**/secret/batch', async (route) => {
    await held
    await route.continue()
  })
  await saveAll(page)
  await page.keyboard.press('Escape')
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByRole('button', { name: 'Back' }).isDisabled()).toBe(true)
  answer()
  await page.getByText('Saved 1 change in development.').waitFor()
  await dialog.waitFor({ state: 'detached' })
})

test('undo takes edits back one by one, and brings back what was discarded', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a', TWO: 'b' })
  const page = await openGrid(service, project, { session: owner.session })
  await typeInto(page, 'ONE', 0, 'new a')
  await typeInto(page, 'TWO', 0, 'new b')
  await page.getByText('2 changes in development').waitFor()
  await page.getByRole('button', { name: 'Discard' }).click()
  await page.getByRole('button', { name: 'Review and save' }).waitFor({ state: 'detached' })
  await page.keyboard.press('Control+z')
  await page.getByText('2 changes in development').waitFor()
  await focusCell(page, 'ONE', 0)
  await page.keyboard.press('z')
  await page.getByText('1 change in development').waitFor()
  await page.keyboard.press('z')
  await page.getByRole('button', { name: 'Review and save' }).waitFor({ state: 'detached' })
  expect(await cellOf(page, 'TWO', 0).textContent()).toContain('hidden')
})

test('Back asks before unsaved edits are lost', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a' })
  const page = await openGrid(service, project, { session: owner.session })
  await page.getByRole('link', { name: 'Compare' }).click()
  await page.waitForURL(/compare/)
  await page.getByRole('link', { name: 'Secrets', exact: true }).click()
  await typeInto(page, 'ONE', 0, 'edited')
  await page.goBack()
  const dialog = page.getByRole('dialog', { name: 'Leave without saving?' })
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Stay' }).click()
  await cellOf(page, 'ONE', 0).getByText('edited').waitFor()
  await page.getByRole('link', { name: 'Trash' }).click()
  await dialog.getByRole('button', { name: 'Leave without saving' }).click()
  await page.waitForURL(/trash/)
  expect(await project.state('development')).toEqual({ ONE: 'a' })
})
