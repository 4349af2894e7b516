/** The page that signs in a command line by its code. */
import type { DeviceCode } from '@coffer/sdk'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../test/browser.ts'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'

const phone = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  colorScheme: 'dark',
} as const

let service: TestService
let owner: TestUser
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  // Codes do not expire between two steps of a slow machine.
  service.clock.fixedAt = Date.now()
})
afterAll(() => service.stop())

const clientId = 'coffer-cli'
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()
const click = (page: Page, name: string) => page.getByRole('button', { name }).click()

async function startDevice(): Promise<DeviceCode & { readonly path: string }> {
  const headers = { 'user-agent': 'coffer-cli/0.1 <b>linux</b>' }
  const { body } = await service.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId }, headers })
  const { pathname, hash } = new URL(body.verificationUriComplete)
  return { ...body, path: pathname + hash }
}

const poll = async ({ deviceCode }: DeviceCode) =>
  (await service.call('POST', '/v1/auth/device/token', { body: { clientId, deviceCode } })).body

const whoIs = async (token: string) => (await service.call('GET', '/v1/me', { token })).body

test('a person who is signed in compares the code, and approves', async () => {
  const device = await startDevice()
  const page = await openPage(service, { path: device.path, session: owner.session, context: phone })
  const addresses: string[] = []
  page.on('request', (request) => addresses.push(request.url()))
  await heading(page, 'Sign in this device?')
  expect(await page.getByRole('definition').allTextContents()).toEqual([
    device.userCode,
    clientId,
    '127.0.0.1',
    'coffer-cli/0.1 <b>linux</b>',
    expect.stringMatching(/^\d+ \w+ \d{4}, \d\d:\d\d$/),
  ])
  await page.getByText(`Signed in as ${owner.email}`).waitFor()
  await page.getByText('Approve only if you started this yourself').waitFor()
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  await expectAccessible(page)
  expect(await poll(device)).toEqual({ error: 'authorization_pending' })
  await click(page, 'Approve')
  await heading(page, 'Approved')
  await page.getByText('You can close this page.').waitFor()
  await expectAccessible(page)
  const { accessToken } = (await poll(device)) as { accessToken: string }
  expect(await whoIs(accessToken)).toMatchObject({ email: owner.email, credential: { type: 'cli' } })
  expect(addresses.join('\n')).not.toContain(device.userCode)
})

test('a person who is not signed in does that first, and the code is kept', async () => {
  const device = await startDevice()
  const { email } = await addUser(service, 'ann@example.com')
  const page = await openPage(service, { path: device.path, session: owner.session, expectedErrors: [/401/] })
  await heading(page, 'Sign in this device?')
  await service.call('POST', '/v1/auth/logout', { token: owner.session })
  await click(page, 'Approve')
  await heading(page, 'Sign in to connect a device')
  await page.getByText(device.userCode).waitFor()
  await expectAccessible(page)
  await page.reload()
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.keyboard.press('Enter')
  await page.getByText(`Signed in as ${email}`).waitFor()
  await page.getByText(device.userCode).waitFor()
  await click(page, 'Use another account')
  await heading(page, 'Sign in to connect a device')
  await page.getByLabel('Email').fill(owner.email)
  await page.getByLabel('Password').fill(password)
  await click(page, 'Sign in')
  await click(page, 'Deny')
  await heading(page, 'Denied')
  await expectAccessible(page)
  expect(await poll(device)).toEqual({ error: 'access_denied' })
})

test('a code is typed in any form; a wrong or expired one is refused beside the field', async () => {
  const { session } = await addUser(service, 'bob@example.com')
  const device = await startDevice()
  const page = await openPage(service, { path: '/device', session, expectedErrors: [/404/] })
  await heading(page, 'Connect a device')
  await expectAccessible(page)
  const code = page.getByLabel('Code')
  await code.fill('bcdf-ghjk')
  await page.keyboard.press('Enter')
  await page.getByText('This code is unknown or has expired: get a new one on the device.').waitFor()
  expect(await page.evaluate('document.activeElement.id')).toBe('userCode')
  await expectAccessible(page)
  await code.fill(` ${device.userCode.toLowerCase().replace('-', ' ')} `)
  await page.keyboard.press('Enter')
  await heading(page, 'Sign in this device?')
  await page.getByText(device.userCode).waitFor()
  service.clock.offsetMs += 301_000
  await click(page, 'Approve')
  await heading(page, 'Connect a device')
  expect(await page.getByRole('alert').textContent()).toContain('has expired')
  await page.goto(device.path)
  await page.getByRole('alert').getByText('has expired').waitFor()
  expect(await poll(device)).toEqual({ error: 'expired_token' })
})
