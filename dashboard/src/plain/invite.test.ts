/** The page behind an invite link, for people with and without an account. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../test/authenticator.ts'
import { expectAccessible, openPage } from '../../../test/browser.ts'
import { addUser, password, registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../test/member-workspace.ts'

const phone = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  colorScheme: 'dark',
} as const
/** The page asks who is signed in. */
const nobody = /401/

let service: TestService
let place: MemberWorkspace
beforeAll(async () => {
  service = await startService()
  place = await createMemberWorkspace(service, await registerOwner(service))
  // A code of the authenticator does not run out between two steps of a slow machine.
  service.clock.fixedAt = Date.now()
})
afterAll(() => service.stop())

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()
const click = (page: Page, name: string) => page.getByRole('button', { name }).click()
const statusOf = async (id: string) => (await place.row(id))?.status
const isSignedIn = async (page: Page) => (await page.context().cookies()).length === 1

test('a person without an account creates one and is in the workspace', async () => {
  const email = place.newAddress()
  const { id, inviteToken } = await place.mustInvite({ email })
  const page = await openPage(service, { path: `/invite#${inviteToken}`, expectedErrors: [nobody], context: phone })
  const addresses: string[] = []
  page.on('request', (request) => addresses.push(request.url()))
  await heading(page, `Join ${place.slug}`)
  expect(await page.getByRole('definition').allTextContents()).toEqual([
    email,
    'Developer: reads and changes secrets',
    expect.stringMatching(/^\d+ \w+ \d{4}, \d\d:\d\d$/),
  ])
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  await expectAccessible(page)
  await page.getByLabel('Your name').fill('Ann Lee')
  await page.getByLabel('Password').fill('too short')
  await click(page, 'Create account and join')
  expect(await page.evaluate("document.querySelector('#password').validity.tooShort")).toBe(true)
  expect(await statusOf(id)).toBe('invite-sent')
  await page.getByLabel('Password').fill(password)
  await page.keyboard.press('Enter')
  await page.waitForURL(`/${place.slug}`)
  expect(await place.row(id)).toMatchObject({ status: 'account-created', user: { email, name: 'Ann Lee' } })
  expect(await isSignedIn(page)).toBe(true)
  expect(addresses.join('\n')).not.toContain(inviteToken)
})

test('a person with an account signs in with password and code, and then accepts', async () => {
  const email = place.newAddress()
  const authenticator = await setUpTotp(service, (await addUser(service, email)).session)
  const { id, inviteToken } = await place.mustInvite({ email, role: 'admin' })
  const page = await openPage(service, { path: `/invite#${inviteToken}`, expectedErrors: [nobody, /409/] })
  await page.getByLabel('Your name').fill('Ann Lee')
  await page.getByLabel('Password').fill(password)
  await click(page, 'Create account and join')
  await page.getByText('already exists: sign in instead').waitFor()
  await expectAccessible(page)
  await click(page, 'I have an account')
  expect(await page.getByLabel('Code').isVisible()).toBe(false)
  await page.getByLabel('Password').fill('a wrong password')
  await click(page, 'Sign in')
  await page.getByRole('alert').getByText('is wrong').waitFor()
  await page.getByLabel('Password').fill(password)
  await click(page, 'Sign in')
  await page.getByLabel('Code').fill('000000')
  await expectAccessible(page)
  await click(page, 'Sign in')
  await page.getByText('Is wrong or was already used.').waitFor()
  await page.getByLabel('Code').fill(authenticator.freshCode())
  await click(page, 'Sign in')
  await page.getByText('You are signed in with the invited address.').waitFor()
  await expectAccessible(page)
  expect(await statusOf(id)).toBe('invite-sent')
  await click(page, 'Accept')
  await page.waitForURL(`/${place.slug}`)
  expect(await place.row(id)).toMatchObject({ status: 'account-created', role: 'admin' })
})

test('a person who is signed in declines', async () => {
  const email = place.newAddress()
  const { session } = await addUser(service, email)
  const { id, inviteToken } = await place.mustInvite({ email })
  const page = await openPage(service, { path: `/invite#${inviteToken}`, session })
  await click(page, 'Decline')
  await heading(page, 'Invite declined')
  await expectAccessible(page)
  expect(await statusOf(id)).toBe('declined')
})

test('a person who is signed in with another address is told so, and signs out', async () => {
  const other = await addUser(service, place.newAddress())
  const email = place.newAddress()
  const { id, inviteToken } = await place.mustInvite({ email })
  const page = await openPage(service, { path: `/invite#${inviteToken}`, session: other.session })
  await page.getByText(`You are signed in as ${other.email}, but this invite is for ${email}.`).waitFor()
  await expectAccessible(page)
  await click(page, 'Sign out and continue')
  await page.getByRole('heading', { name: 'Create your account' }).waitFor()
  expect(await page.evaluate('document.activeElement.tagName')).toBe('H1')
  expect((await service.call('GET', '/v1/me', { token: other.session })).status).toBe(401)
  expect(await statusOf(id)).toBe('invite-sent')
})

test('without a connection, the page offers another try', async () => {
  const { inviteToken } = await place.mustInvite()
  const page = await openPage(service, { path: '/invite', expectedErrors: [nobody, /ERR_INTERNET_DISCONNECTED/] })
  await page.route('**/v1/**', (route) => route.abort('internetdisconnected'))
  await page.goto(`/invite#${inviteToken}`)
  await page.getByText('Coffer cannot be reached.').waitFor()
  await expectAccessible(page)
  await page.unroute('**/v1/**')
  await click(page, 'Try again')
  await heading(page, `Join ${place.slug}`)
})

test('an invite that is withdrawn, has expired or never existed gets one sentence', async () => {
  const email = place.newAddress()
  const { session } = await addUser(service, email)
  const withdrawn = await place.mustInvite({ email })
  const page = await openPage(service, {
    path: `/invite#${withdrawn.inviteToken}`,
    session,
    expectedErrors: [/40[14]/],
  })
  await page.getByText('You are signed in with the invited address.').waitFor()
  await place.ask('DELETE', `/rbac/${withdrawn.id}`)
  await click(page, 'Accept')
  await heading(page, 'This invite does not work')
  await expectAccessible(page)
  await page.goto('/invite')
  await heading(page, 'This link is incomplete')
  const { inviteToken } = await place.mustInvite()
  // The same page with another fragment is not loaded again by the browser.
  await page.goto(`/invite#${inviteToken}`)
  await heading(page, `Join ${place.slug}`)
  service.clock.offsetMs += 8 * 24 * 3_600_000
  await page.reload()
  await heading(page, 'This invite does not work')
})
