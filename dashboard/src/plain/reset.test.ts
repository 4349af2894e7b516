/** The page behind the link that `coffer-server account reset-password` prints. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../test/browser.ts'
import { runHere } from '../../../test/command.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'

let service: TestService
let owner: TestUser
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

async function makeLink(): Promise<string> {
  const { out } = await runHere(['account', 'reset-password', owner.email], {
    ...service.settings,
    COFFER_PUBLIC_URL: service.url,
  })
  return /\/reset#\w+/.exec(out)?.[0] ?? ''
}

test('the link sets a new password once, and the address holds no token afterwards', async () => {
  const link = await makeLink()
  const page = await openPage(service, { path: link, expectedErrors: [/404/] })
  const addresses: string[] = []
  page.on('request', (request) => addresses.push(request.url()))
  await heading(page, 'Set a new password')
  await expectAccessible(page)
  await page.getByLabel('New password').fill('too short')
  await page.keyboard.press('Enter')
  expect(await page.evaluate("document.querySelector('#password').validity.tooShort")).toBe(true)
  await page.getByLabel('New password').fill('another long password')
  await page.keyboard.press('Enter')
  await heading(page, 'Your password is set')
  await expectAccessible(page)
  expect(await page.evaluate('location.hash')).toBe('')
  expect(addresses.join('\n')).not.toContain(link.slice('/reset#'.length))

  const again = await openPage(service, { path: link, expectedErrors: [/404/] })
  await again.getByLabel('New password').fill('yet another password')
  await again.keyboard.press('Enter')
  await heading(again, 'This link does not work')
  const login = (password: string) =>
    service.call('POST', '/v1/auth/login', { body: { email: owner.email, password } }).then(({ status }) => status)
  expect([await login('another long password'), await login('yet another password')]).toEqual([200, 401])
  await page.getByRole('link', { name: 'Sign in' }).click()
  await page.waitForURL('/login')
})

test('a link without its secret part says so', async () => {
  const page = await openPage(service, { path: '/reset' })
  await heading(page, 'This link is incomplete')
})
