/** The account of a person: second factor and sessions. */
import type { Session } from '@coffer/contract/me'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { hotp, totpStep } from '../../../../server/src/crypto/totp.ts'
import { readBase32 } from '../../../../test/authenticator.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, password, registerOwner, startService, type TestService } from '../../../../test/harness.ts'

let service: TestService

beforeAll(async () => {
  service = await startService()
  await registerOwner(service)
})
afterAll(() => service.stop())

async function logIn(email: string, code?: string) {
  const body = { email, password, ...(code !== undefined && { code }) }
  return service.call<{ accessToken: string }>('POST', '/v1/auth/login', { body })
}

test('an authenticator app is set up with its recovery codes, asked for at the next login, and removed', async () => {
  const email = 'factor@example.com'
  // Codes do not run out between two steps of a slow machine.
  service.clock.fixedAt = Date.now()
  onTestFinished(() => void delete service.clock.fixedAt)
  const { session } = await addUser(service, email)
  const page = await openPage(service, { session, path: '/me', expectedErrors: [/40[013]/] })
  await page.getByRole('button', { name: 'Set up' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Your password').fill('not my password')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('Is wrong.').waitFor()
  await page.getByLabel('Your password').fill(password)
  await page.getByRole('button', { name: 'Continue' }).click()
  const secret = (await page.getByLabel('Or type this key into the app').inputValue()).replaceAll(' ', '')
  expect(secret).toMatch(/^[A-Z2-7]{32}$/)
  await page.getByRole('img', { name: 'QR code for your authenticator app' }).waitFor()
  await expectAccessible(page)
  const codeAt = (step: number) => hotp(readBase32(secret), step)
  const now = () => totpStep(service.app.services.now())
  await page.getByLabel('Code', { exact: true }).fill(codeAt(now() + 1_000))
  await page.getByRole('button', { name: 'Turn on' }).click()
  await page.getByText('Is not the one that the app shows now').waitFor()
  await page.getByLabel('Code', { exact: true }).fill(codeAt(now()))
  await page.getByRole('button', { name: 'Turn on' }).click()

  const list = page.getByRole('list', { name: 'Recovery codes' })
  await list.waitFor()
  const codes = await list.getByRole('listitem').allTextContents()
  expect(new Set(codes).size).toBe(10)
  // A click beside the dialog does not lose what is shown only once.
  await page.mouse.click(5, 5)
  await expectAccessible(page)
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ])
  expect(download.suggestedFilename()).toBe('coffer-recovery-codes.txt')
  await page.getByRole('button', { name: 'I have saved them' }).click()
  await page.getByRole('button', { name: 'Remove' }).waitFor()
  expect(await page.content()).not.toContain(codes[0])

  const login = await openPage(service, { path: '/login?returnTo=/me', expectedErrors: [/401/] })
  await login.getByLabel('Email').fill(email)
  await login.getByLabel('Password').fill(password)
  await login.getByRole('button', { name: 'Sign in' }).click()
  service.clock.offsetMs += 60_000
  await login.getByLabel('Code', { exact: true }).fill(codeAt(now()))
  await login.getByRole('button', { name: 'Sign in' }).click()
  await login.waitForURL('/me')

  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Your password').fill(password)
  await page.getByLabel('Code', { exact: true }).fill(codes[3] ?? '')
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Set up' }).waitFor()
  expect((await logIn(email)).status).toBe(200)
})

test('a session that is ended in another one can do nothing more until its person signs in again', async () => {
  const email = 'sessions@example.com'
  const { session } = await addUser(service, email)
  const other = (await logIn(email)).body.accessToken
  const page = await openPage(service, { session, path: '/me' })
  const left = await openPage(service, { session: other, path: '/me', expectedErrors: [/401/] })
  await left.getByText('this one').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: /^End the session of/ }).click()
  await page.getByText('The session has ended.').waitFor()
  const { body } = await service.call<Session[]>('GET', '/v1/me/session', { token: session })
  expect(body).toMatchObject([{ current: true }])

  await left.getByLabel('Name', { exact: true }).fill('Somebody else')
  await left.getByRole('button', { name: 'Save' }).click()
  await left.getByRole('heading', { name: 'Your session has ended' }).waitFor()
  await expectAccessible(left)
  await left.getByRole('dialog').getByLabel('Password').fill(password)
  await left.getByRole('button', { name: 'Sign in' }).click()
  await left.getByRole('button', { name: 'Save' }).click()
  await left.getByText('Saved.').waitFor()
  const me = await service.call<{ name: string }>('GET', '/v1/me', { token: session })
  expect(me.body.name).toBe('Somebody else')

  await page.reload()
  await page.getByRole('button', { name: 'End all others' }).click()
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'End 1 session' }).click()
  await page.getByText('All other sessions have ended.').waitFor()
})
