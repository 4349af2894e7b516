/** Comparing two environments and promoting from one to the other. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { expectAccessible, holdRequests, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let member: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspaces = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const workspaceId = workspaces.body[0]?.id ?? ''
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
})
afterAll(() => service.stop())

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('staging', { API_URL: 'https://staging-value.example.com', FLAG: 'canary-flag', SHARED: 'same' })
  await project.set('production', {
    API_URL: 'https://production-value.example.com',
    SHARED: 'same',
    OLD: 'canary-old',
  })
})

async function openComparison(user: TestUser, expectedErrors: readonly RegExp[] = []): Promise<Page> {
  const page = await openPage(service, {
    session: user.session,
    path: `/main/${project.slug}/compare?from=staging&to=production`,
    expectedErrors,
  })
  await page.getByRole('rowheader', { name: 'API_URL' }).waitFor()
  return page
}

const promoteButton = (page: Page) => page.getByRole('dialog').getByRole('button', { name: /^Promote/ })

test('a developer sees the differences and promotes the keys that they tick', async () => {
  const page = await openComparison(owner)
  expect(await page.getByRole('rowheader').allTextContents()).toEqual(['API_URL', 'FLAG', 'OLD'])
  expect(await page.getByRole('button', { name: 'Same 1' }).isVisible()).toBe(true)
  // The target alone has it: there is nothing to promote.
  expect(await page.getByRole('checkbox', { name: 'OLD' }).count()).toBe(0)

  await page.getByRole('checkbox', { name: 'FLAG' }).check()
  await page.getByRole('button', { name: 'Promote 1 key' }).click()
  await page.getByText('1 key created').waitFor()
  await expectAccessible(page)
  expect(await promoteButton(page).isEnabled()).toBe(false)
  // Nothing has a value in production yet, so there is nothing to decide about values there.
  expect(await page.getByLabel('Keys that exist already').count()).toBe(0)
  await page.getByLabel('Message').fill('flags for the release')
  await page.getByLabel('Type production to confirm').fill('production')
  const { asked, release } = await holdRequests(page, /\/diff\?/)
  await promoteButton(page).click()
  // The dialog stays until the page behind it shows the new state.
  await asked
  expect(await page.getByRole('dialog').isVisible()).toBe(true)
  release()
  await page.getByText('Promoted 1 key from staging to production.').waitFor()

  expect(await project.state('production')).toMatchObject({
    FLAG: 'canary-flag',
    API_URL: 'https://production-value.example.com',
    OLD: 'canary-old',
  })
  expect((await project.revisions('production'))[0]?.message).toBe('flags for the release')
  await page.getByRole('rowheader', { name: 'FLAG' }).waitFor({ state: 'detached' })
})

test('a change meanwhile is not overwritten: the new plan is shown first', async () => {
  const page = await openComparison(owner, [/412/])
  await page.getByRole('checkbox', { name: 'FLAG' }).check()
  await page.getByRole('button', { name: 'Promote 1 key' }).click()
  await page.getByText('1 key created').waitFor()
  await page.getByLabel('Type production to confirm').fill('production')

  await project.set('production', { FLAG: 'written meanwhile' })
  await promoteButton(page).click()
  await page.getByRole('alert').filter({ hasText: 'changed' }).waitFor()
  await page.getByText('1 key changed').waitFor()
  expect((await project.state('production')).FLAG).toBe('written meanwhile')
  expect(await page.getByLabel('Type production to confirm').inputValue()).toBe('')

  await page.getByLabel('Type production to confirm').fill('production')
  await promoteButton(page).click()
  await page.getByText('Promoted 1 key').waitFor()
  expect((await project.state('production')).FLAG).toBe('canary-flag')
})

test('values appear only after the question, and leave the page after 30 seconds', async () => {
  const page = await openComparison(member)
  await page.clock.install()
  expect(await page.content()).not.toMatch(/-value|canary/)
  await page.getByRole('button', { name: 'Show values' }).click()
  await expectAccessible(page)
  const before = (await project.views()).length
  await page.getByRole('dialog').getByRole('button', { name: 'Show values' }).click()
  await page.getByText('https://production-value.example.com').waitFor()
  expect(await page.content()).toMatch(/canary-flag/)
  expect((await project.views()).length).toBeGreaterThan(before)
  await expectAccessible(page)

  await page.clock.fastForward(31_000)
  await page.getByRole('button', { name: 'Show values' }).waitFor()
  expect(await page.content()).not.toMatch(/-value|canary/)
  // It asks once.
  await page.getByRole('button', { name: 'Show values' }).click()
  await page.getByText('canary-old').waitFor()
  await page.getByRole('button', { name: 'Hide values' }).click()
  expect(await page.content()).not.toMatch(/-value|canary/)
})

test('a member compares and swaps, but is offered no promotion', async () => {
  const page = await openComparison(member)
  expect(await page.getByRole('button', { name: /Promote/ }).count()).toBe(0)
  expect(await page.getByRole('checkbox').count()).toBe(0)
  await page.getByRole('button', { name: 'Swap the two environments' }).click()
  await page.waitForURL(/from=production&to=staging/)
  await page.getByRole('row', { name: /FLAG .*only in staging/ }).waitFor()
  await page.getByLabel('Filter by name').fill('api')
  expect(await page.getByRole('rowheader').allTextContents()).toEqual(['API_URL'])
})

test('two empty environments lead to the pair before them', async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('development', { FLAG: 'on' })
  const page = await openPage(service, { session: owner.session, path: `/main/${project.slug}/compare` })
  await page.getByText('There is no secret in staging or production yet.').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Compare development with staging' }).click()
  await page.getByRole('rowheader', { name: 'FLAG' }).waitFor()
  await page.getByText('only in development').waitFor()
})
