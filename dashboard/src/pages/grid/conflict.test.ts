/** Two people, one key: nothing is overwritten unseen, and edits survive until they are saved or given up. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, holdRequests } from '../../../../test/browser.ts'
import { cellOf, focusCell, focusOf, openGrid, saveAll, typeInto } from '../../../../test/grid-page.ts'
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
  const { asked, release } = await holdRequests(page, /\/secret\/batch$/)
  await saveAll(page)
  await asked
  await page.keyboard.press('Escape')
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByRole('button', { name: 'Back' }).isDisabled()).toBe(true)
  release()
  await page.getByText('Saved 1 change in development.').waitFor()
  await dialog.waitFor({ state: 'detached' })
})

test('a review stays open until the grid shows what was saved, so that the next key meets no older state', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { KEY: 'shared' })
  const page = await openGrid(service, project, { session: owner.session })
  await focusCell(page, 'KEY', 0)
  await page.keyboard.press('e')
  const drawer = page.getByRole('dialog', { name: 'KEY in development' })
  await drawer.getByLabel('Just for me').check()
  await drawer.getByLabel('Your own value').fill('mine')
  await drawer.getByRole('button', { name: 'Keep change' }).click()
  await drawer.waitFor({ state: 'detached' })
  const { asked, release } = await holdRequests(page, /\/secret\?.*view=cells/)
  await saveAll(page)
  await asked
  const review = page.getByRole('dialog', { name: 'Review changes' })
  await page.keyboard.press('Escape')
  await page.keyboard.press('e')
  expect(await review.getByRole('button', { name: 'Back' }).isDisabled()).toBe(true)
  expect(await review.getByRole('listitem').count()).toBe(1)
  expect(await drawer.count()).toBe(0)
  release()
  await review.waitFor({ state: 'detached' })
  await expect.poll(() => focusOf(page)).toBe('KEY 2')
  await page.keyboard.press('e')
  await drawer.getByRole('button', { name: 'Remove my value' }).waitFor()
  expect(await drawer.getByLabel('Your own value').inputValue()).toBe('mine')
})

test('a new secret keeps the focus when it is saved, so that keys go on from there', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a', TWO: 'b' })
  const page = await openGrid(service, project, { session: owner.session })
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name', { exact: true }).fill('THREE')
  await dialog.getByLabel('Value in development').fill('c')
  await dialog.getByRole('button', { name: 'Add' }).click()
  await expect.poll(() => focusOf(page)).toBe('THREE 1')
  await page.keyboard.press('ArrowRight')
  await expect.poll(() => focusOf(page)).toBe('THREE 2')
  await saveAll(page)
  await page.getByText('Saved 1 change in development.').waitFor()
  await expect.poll(() => focusOf(page)).toBe('THREE 2')
  await page.keyboard.press('ArrowUp')
  await expect.poll(() => focusOf(page)).toBe('ONE 2')
})

test('the grid behind a dialog takes no keys, also before the dialog has the focus', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a', TWO: 'b' })
  const page = await openGrid(service, project, { session: owner.session })
  await typeInto(page, 'ONE', 0, 'new a')
  await focusCell(page, 'TWO', 0)
  // Roles find nothing behind a dialog.
  const behind = page.locator(`#${await cellOf(page, 'TWO', 0).getAttribute('id')}`)
  await page.keyboard.press('Control+s')
  const review = page.getByRole('dialog', { name: 'Review changes' })
  await review.waitFor()
  for (const key of ['Delete', 'h']) await behind.dispatchEvent('keydown', { key })
  await review.getByRole('button', { name: 'Save 1 change', exact: true }).click()
  await page.getByText('Saved 1 change in development.').waitFor()
  expect(await project.state('development')).toEqual({ ONE: 'new a', TWO: 'b' })
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
