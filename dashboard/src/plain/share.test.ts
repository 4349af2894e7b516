/** The page behind a share link: what it spends, what it shows, what it sends, and what stays. */
import { seal, sealWith } from '@coffer/sdk/share-envelope'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../test/browser.ts'
import { openShell } from '../../../test/cli.ts'
import { registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { createShareProject, type ShareProject } from '../../../test/share.ts'

const canary = 'c4n4ry-v4lue'
const phone = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  colorScheme: 'dark',
} as const

let service: TestService
let session: string
let shares: ShareProject
beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
  shares = await createShareProject(service, session)
  // A lost answer is repeated for a minute, which does not pass on a slow machine.
  service.clock.fixedAt = Date.now()
})
afterAll(() => service.stop())

type Made = { readonly token: string; readonly fragment?: string }
const pathOf = ({ token, fragment = '' }: Made) => `/share/${token}${fragment}`
const viewsOf = async (id: string) => (await shares.find(id)).views
const show = (page: Page) => page.getByRole('button', { name: 'Show' }).click()
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

/** The minute after which the content leaves the page does not pass, however long a test looks at it. */
const initScript = 'globalThis.setInterval = () => 0'

/** Addresses, headers and bodies of all requests from now on. */
function recordRequests(page: Page): string[] {
  const sent: string[] = []
  page.on('request', (request) => {
    sent.push([request.method(), request.url(), JSON.stringify(request.headers()), request.postData()].join(' '))
  })
  return sent
}

test('nothing is used up before Show, and the key never leaves the browser', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary })
  const page = await openPage(service, { path: `/share/${'x'.repeat(22)}`, expectedErrors: [/404/], initScript })
  const sent = recordRequests(page)
  await page.goto(pathOf(share))
  await heading(page, 'Somebody shared a secret with you')
  expect(await page.getByRole('definition').allTextContents()).toEqual([
    'once',
    expect.stringMatching(/^\d+ \w+ \d{4}, \d\d:\d\d$/),
    '284 bytes',
    'end to end: only this link opens it',
  ])
  await expectAccessible(page)
  expect(await viewsOf(share.id)).toBe(0)
  await show(page)
  await heading(page, 'Shared with you')
  expect(await page.getByRole('region', { name: 'Text' }).textContent()).toBe(canary)
  await page.getByText('The link does not work any more.').waitFor()
  await expectAccessible(page)
  expect(await viewsOf(share.id)).toBe(1)
  expect(page.url()).toBe(`${service.url}/share/${share.token}`)
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Shared with you')
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage }) + document.title')).not.toContain(
    canary,
  )
  expect(sent.length).toBeGreaterThan(3)
  expect(sent.join('\n')).not.toContain(share.fragment.slice('#1.'.length))
})

test('a link preview uses up nothing', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary })
  for (const method of ['GET', 'HEAD']) {
    const response = await fetch(`${service.url}/share/${share.token}`, { method, headers: { accept: 'text/html' } })
    expect(response.status).toBe(200)
    expect(await response.text()).not.toContain(share.token)
  }
  expect(await viewsOf(share.id)).toBe(0)
  expect(await shares.views(share.id)).toEqual([])
})

test('the vectors of the format open, after a wrong password that is counted', async () => {
  const bytes = (byte: number, length: number) => new Uint8Array(length).fill(byte)
  const content = { t: 'text', v: 'hunter2' } as const
  const { envelope, fragment } = await sealWith(bytes(0x11, 32), bytes(0x33, 12), content, 'correct horse')
  expect(fragment).toBe('#1.ERERERERERERERERERERERERERERERERERERERERERH2JJz4')
  const { id, token } = await shares.make({ envelope })
  const page = await openPage(service, { path: pathOf({ token, fragment }), expectedErrors: [/403/] })
  const password = page.getByLabel('Password')
  await expectAccessible(page)
  await password.fill('correct house')
  await show(page)
  await page.getByText('This password is wrong.').waitFor()
  expect(await page.evaluate('document.activeElement.id')).toBe('password')
  await expectAccessible(page)
  const sent = recordRequests(page)
  await password.fill('correct horse')
  await page.keyboard.press('Enter')
  await heading(page, 'Shared with you')
  expect(await page.getByRole('region', { name: 'Text' }).textContent()).toBe('hunter2')
  expect(await shares.find(id)).toMatchObject({ views: 1, failures: 1 })
  const proof = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')
  expect(sent.join()).toContain(proof('33b912082eb1a63d466553dd9eee90dbb102de863daff44407071f9a5fef7a0b'))
  expect(sent.join()).toContain(proof('2cab8bffecaa86f726ed147f7ba1f3691b1c19fa1235a4040d3e5d86de65b544'))
  expect(sent.join()).not.toContain('correct horse')
})

test('a link of the command line opens on a phone, and its values are copied one by one or as lines of an .env file', async () => {
  await shares.set('development', { API_KEY: canary, CERT: 'line 1\nline 2', QUOTE: `it's $5`, EMPTY: '' })
  const env = { COFFER_URL: service.url, COFFER_TOKEN: session, COFFER_WORKSPACE: 'main', COFFER_PROJECT: shares.slug }
  const shell = openShell({ ...env, COFFER_ENVIRONMENT: 'development' })
  const { out } = await shell.coffer(['share', 'API_KEY', 'CERT', 'QUOTE', 'EMPTY', '--views', '3'])
  const { pathname, hash } = new URL(out.trim())
  const permissions = ['clipboard-read', 'clipboard-write']
  const page = await openPage(service, { path: pathname + hash, context: { ...phone, permissions }, initScript })
  await expectAccessible(page)
  await show(page)
  await page.getByText('The link opens 2 more times').waitFor()
  expect(await page.getByRole('region', { name: 'CERT' }).textContent()).toBe('line 1\nline 2')
  await expectAccessible(page)
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  const copied = () => page.evaluate('navigator.clipboard.readText()')
  await page.getByRole('button', { name: 'Copy CERT' }).click()
  await page.getByText('Copy CERT: done.').waitFor({ state: 'attached' })
  expect(await copied()).toBe('line 1\nline 2')
  await page.getByRole('button', { name: 'Copy all' }).click()
  await page.getByText('Copy all: done.').waitFor({ state: 'attached' })
  expect(await copied()).toBe(`API_KEY=${canary}\nCERT='line 1\nline 2'\nQUOTE="it's \\$5"\nEMPTY=`)
})

test('markup, right-to-left text and 64 KB are shown as the text that they are', async () => {
  const value = `<img src=x onerror=alert(1)>\n\u202eמפתח سر 🔑\r\n\t${'0123456789abcdef'.repeat(4_096)}`
  const share = await shares.makeSealed({ t: 'kv', items: [{ name: '<b>KEY</b>', value }] })
  const page = await openPage(service, { path: pathOf(share), context: phone, initScript })
  await show(page)
  const box = page.getByRole('region', { name: '<b>KEY</b>' })
  expect(await box.textContent()).toBe(value)
  expect(await page.evaluate("document.querySelector('pre').childElementCount")).toBe(0)
  expect(await page.getByRole('heading', { level: 2 }).textContent()).toBe('<b>KEY</b>')
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  await expectAccessible(page)
})

test('a share of the service opens with its password, and is locked after too many wrong ones', async () => {
  const { id, token } = await shares.make({ content: canary, password: 'plumber', maxViews: 2, maxFailures: 3 })
  const page = await openPage(service, { path: pathOf({ token }), expectedErrors: [/403/, /404/] })
  const password = page.getByLabel('Password')
  await password.fill('plumber')
  await show(page)
  expect(await page.getByRole('region', { name: 'Text' }).textContent()).toBe(canary)
  await page.goto(pathOf({ token }))
  for (const failures of [1, 2, 3]) {
    await password.fill(`wrong ${failures}`)
    await show(page)
    await expect.poll(() => shares.find(id)).toMatchObject({ views: 1, failures })
  }
  await show(page)
  await heading(page, 'This link does not work')
  await expectAccessible(page)
})

test('an answer that is lost on its way is fetched again for the same view', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary })
  const page = await openPage(service, { path: pathOf(share), expectedErrors: [/ERR_FAILED/] })
  let lost = 0
  await page.route('**/view', async (route) => {
    if (lost === 2) return route.continue()
    lost += 1
    await route.fetch()
    await route.abort()
  })
  await show(page)
  await page.getByText('No answer arrived.').waitFor()
  await show(page)
  expect(await page.getByRole('region', { name: 'Text' }).textContent()).toBe(canary)
  const outcomes = (await shares.views(share.id)).map(({ outcome }) => outcome)
  expect(outcomes.toSorted()).toEqual(['repeated', 'repeated', 'success'])
})

test('the content leaves the page after a minute, unless the reader asks for another one', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary })
  const page = await openPage(service, { path: pathOf(share) })
  // The time of the page stands still between the steps, however slow the machine is.
  const now = Date.now()
  await page.clock.install({ time: now })
  await page.clock.pauseAt(now + 60_000)
  await show(page)
  await heading(page, 'Shared with you')
  await page.clock.runFor(41_000)
  await page.getByText('Removed in 20 seconds.').waitFor({ state: 'attached' })
  await page.getByRole('button', { name: 'Keep for another minute' }).click()
  await page.clock.runFor(59_000)
  expect(await page.content()).toContain(canary)
  await page.clock.runFor(2_000)
  await heading(page, 'Removed from this page')
  expect(await page.content()).not.toContain(canary)
  await page.clock.resume()
  await expectAccessible(page)
})

test('the content leaves the page at the button, when the page is left, and when a machine wakes up', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary }, undefined, { maxViews: 3 })
  const page = await openPage(service, { path: pathOf(share) })
  await show(page)
  await page.getByRole('button', { name: 'Remove now' }).click()
  await page.getByText('open the link again').waitFor()
  expect(await page.content()).not.toContain(canary)
  await page.goto(pathOf(share))
  await show(page)
  await heading(page, 'Shared with you')
  await page.evaluate("dispatchEvent(new Event('pagehide'))")
  expect(await page.content()).not.toContain(canary)
  await page.goto(pathOf(share))
  await page.clock.install()
  await show(page)
  await heading(page, 'Shared with you')
  // Timers stand still meanwhile, and fire once.
  await page.clock.fastForward(61_000)
  await heading(page, 'Removed from this page')
  expect(await page.content()).not.toContain(canary)
})

test('a share that was revoked, has expired or never existed gets one sentence', async () => {
  const revoked = await shares.makeSealed({ t: 'text', v: canary })
  const page = await openPage(service, { path: pathOf(revoked), expectedErrors: [/404/] })
  await heading(page, 'Somebody shared a secret with you')
  await shares.revoke(revoked.id)
  await show(page)
  await heading(page, 'This link does not work')
  await expectAccessible(page)
  const expired = await shares.makeSealed({ t: 'text', v: canary }, undefined, { expiresIn: 300 })
  service.clock.offsetMs += 301_000
  await page.goto(pathOf(expired))
  await heading(page, 'This link does not work')
  await page.goto('/share/')
  await heading(page, 'This link does not work')
})

test('a link without its key, or with a part of it, is refused before anything is used up', async () => {
  const { envelope, fragment } = await seal({ t: 'text', v: canary })
  const { id, token } = await shares.make({ envelope })
  const page = await openPage(service, { path: pathOf({ token }) })
  await heading(page, 'This link is incomplete')
  await expectAccessible(page)
  const sent = recordRequests(page)
  await page.goto(pathOf({ token, fragment: fragment.slice(0, -1) }))
  await heading(page, 'This link is incomplete')
  expect(sent.filter((request) => request.includes('/v1/'))).toEqual([])
  await page.goto(pathOf({ token, fragment }))
  await heading(page, 'Somebody shared a secret with you')
  expect(await viewsOf(id)).toBe(0)
})

test('where copying is not allowed, the button says what to do instead', async () => {
  const { token } = await shares.make({ content: canary })
  const page = await openPage(service, { path: pathOf({ token }) })
  await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
  await show(page)
  await page.getByRole('button', { name: 'Copy Text' }).click()
  await page.getByText('Select the text instead', { exact: true }).waitFor()
})

test('without https, the page says why it cannot decrypt', async () => {
  const share = await shares.makeSealed({ t: 'text', v: canary })
  const page = await openPage(service, { path: '/share/', expectedErrors: [/404/] })
  await page.addInitScript("Object.defineProperty(globalThis, 'isSecureContext', { value: false })")
  await page.goto(pathOf(share))
  await heading(page, 'This link needs https')
  expect(await viewsOf(share.id)).toBe(0)
})
