/** Signing in: by password, and what is said if it is refused. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectAccessible, openPage } from '../../../test/browser.ts'
import { password, registerOwner, startService, type TestService } from '../../../test/harness.ts'

let service: TestService
let email: string

beforeAll(async () => {
  service = await startService()
  email = (await registerOwner(service)).email
})
afterAll(() => service.stop())

async function signIn(page: Page, secret = password): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(secret)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

test('a person who signs in gets to the page that they asked for, with its fragment', async () => {
  const page = await openPage(service, { path: '/me?a=b#part', expectedErrors: [/401/] })
  await page.waitForURL('/login?returnTo=%2Fme%3Fa%3Db#part')
  await expectAccessible(page)
  await signIn(page)
  await page.waitForURL('/me?a=b#part')
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain('cof_sess_')
})

test.each(['//example.com', '/\t/example.com', '/.//example.com', 'javascript:alert(1)'])(
  'the address of the login page cannot lead to %j',
  async (returnTo) => {
    const page = await openPage(service, { path: `/login?${new URLSearchParams({ returnTo })}` })
    await signIn(page)
    await page.waitForURL((url) => url.pathname !== '/login')
    expect(new URL(page.url()).origin).toBe(service.url)
  },
)

test('a wrong password is refused with a sentence beside the form', async () => {
  const page = await openPage(service, { path: '/login', expectedErrors: [/401/] })
  await signIn(page, 'wrong horse battery staple')
  expect(await page.getByRole('alert').textContent()).toMatch(/password/i)
  await expectAccessible(page)
})

test('an installation without an account leads to its setup', async () => {
  const fresh = await startService()
  onTestFinished(() => fresh.stop())
  const page = await openPage(fresh, { path: '/', expectedErrors: [/401/] })
  await page.waitForURL('/setup')
})
