/** Menus and dialogs, which are loaded when a page is first used. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../../test/browser.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'

let service: TestService
let owner: TestUser
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

test('a menu opens and closes by keyboard, and gives the focus back to its button', async () => {
  const page = await openPage(service, { path: '/main', session: owner.session })
  const button = page.getByRole('button', { name: owner.email })
  for (const _ of ['first', 'second']) {
    await button.press('Enter')
    await page.getByRole('menu').waitFor()
    expect(await button.getAttribute('aria-expanded')).toBe('true')
    await page.keyboard.press('Escape')
    await page.getByRole('menu').waitFor({ state: 'detached' })
    expect(await button.evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true)
  }
})

test('a part that cannot be loaded is said, and loaded at the next try', async () => {
  const page = await openPage(service, { path: '/main', session: owner.session, expectedErrors: [/ERR_FAILED/] })
  await page.getByRole('button', { name: owner.email }).waitFor()
  await page.route('**/assets/opened-menu-*', (route) => route.abort())
  await page.getByRole('button', { name: owner.email }).click()
  await page.getByText('could not be loaded').waitFor()
  await page.unroute('**/assets/opened-menu-*')
  await page.getByRole('button', { name: owner.email }).click()
  await page.getByRole('menuitem', { name: 'Your account' }).click()
  await page.waitForURL('/me')
})
