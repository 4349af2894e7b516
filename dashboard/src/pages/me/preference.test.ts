/** The account of a person: password, address and preferences. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, password, registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { startMailServer } from '../../../../test/mail-server.ts'

let service: TestService

beforeAll(async () => {
  service = await startService()
  await registerOwner(service)
})
afterAll(() => service.stop())

test('a new password needs the current one and at least 12 characters', async () => {
  const email = 'password@example.com'
  const { session } = await addUser(service, email)
  const page = await openPage(service, { session, path: '/me', expectedErrors: [/40[03]/] })
  const change = async (current: string, next: string) => {
    await page.getByLabel('Current password').fill(current)
    await page.getByLabel('New password').fill(next)
    await page.getByRole('button', { name: 'Change password' }).click()
  }
  await change(password, 'short')
  await page.getByText('Must have 12 characters or more.').waitFor()
  await change('not my password', 'a much longer password')
  await page.getByText('Is wrong.').waitFor()
  expect(await page.getByLabel('Current password').getAttribute('aria-invalid')).toBe('true')
  await change(password, 'a much longer password')
  await page.getByText('Your password is changed.').waitFor()
  const login = { body: { email, password: 'a much longer password' } }
  expect((await service.call('POST', '/v1/auth/login', login)).status).toBe(200)
})

test('preferences are saved at once, and the colours and the first page follow them', async () => {
  const email = 'preferences@example.com'
  const { session } = await addUser(service, email)
  for (const slug of ['one', 'two']) {
    const made = await service.call('POST', '/v1/workspace', { token: session, body: { name: slug, slug } })
    expect(made.status).toBe(201)
  }
  const page = await openPage(service, { session, path: '/' })
  await page.getByRole('link', { name: 'two' }).waitFor()
  await expectAccessible(page)
  await page.goto('/me')
  await page.getByLabel('Colours').selectOption('Dark')
  await page.locator('html[data-theme="dark"]').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Start in').selectOption('two')
  await page.getByLabel('Mail me about my account and reminders').uncheck()
  await expect
    .poll(async () => (await service.call('GET', '/v1/me/preferences', { token: session })).body)
    .toMatchObject({ theme: 'dark', emailNotifications: false, defaultWorkspace: expect.any(String) })
  await page.goto('/')
  await page.waitForURL('/two')
})

test('a mailed link confirms the address after its reader has signed in, and its token is sent nowhere else', async () => {
  const mailServer = await startMailServer()
  onTestFinished(() => mailServer.stop())
  const mailing = await startService({
    COFFER_SMTP_URL: `smtp://127.0.0.1:${mailServer.port}`,
    COFFER_MAIL_FROM: 'coffer@example.com',
  })
  onTestFinished(() => mailing.stop())
  const { email, session } = await registerOwner(mailing)
  const page = await openPage(mailing, { session, path: '/me' })
  await page.getByRole('button', { name: 'Send a confirmation link' }).click()
  const [link = ''] = /\/me#confirm-email=[\w-]+/.exec((await mailServer.mailTo(email)).text) ?? []
  const token = link.split('=')[1] ?? ''
  expect(token.length).toBeGreaterThan(20)

  const other = await openPage(mailing, { path: link, expectedErrors: [/401/] })
  const asked: string[] = []
  other.on('request', (request) => void asked.push(request.url()))
  await other.getByLabel('Email').fill(email)
  await other.getByLabel('Password').fill(password)
  expect(new URL(other.url()).search).not.toContain(token)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByText('Your email address is confirmed.').waitFor()
  expect(new URL(other.url()).hash).toBe('')
  expect(asked.join()).not.toContain(token)
  const me = await mailing.call('GET', '/v1/me', { token: session })
  expect(me.body).toMatchObject({ emailVerified: true })
})

test('without a mail server, the page says that links cannot be mailed', async () => {
  const { session } = await addUser(service, 'mail@example.com')
  const page = await openPage(service, { session, path: '/me', expectedErrors: [/40[39]/] })
  await page.getByRole('button', { name: 'Send a confirmation link' }).click()
  await page.getByText('No mail server is configured').waitFor()
  await page.getByRole('button', { name: 'Change address' }).click()
  await page.getByLabel('New email').fill('other@example.com')
  await page.getByLabel('Your password').fill(password)
  await page.getByRole('button', { name: 'Send the link' }).click()
  await page.getByRole('dialog').getByText('No mail server is configured').waitFor()
  await expectAccessible(page)
})
