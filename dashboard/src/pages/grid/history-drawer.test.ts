/** Versions of one value: shown for a moment, compared, and brought back. */
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
  await project.set('production', { CERT: 'canary-one\nline' }, { message: 'first certificate' })
  await project.set('production', { CERT: 'canary-two\nline' })
  await project.remove('production', 'CERT')
  await project.set('production', { CERT: 'canary-four' })
})

async function openHistory(user: TestUser): Promise<Page> {
  const path = `/main/${project.slug}?key=CERT&environment=production`
  const page = await openPage(service, { session: user.session, path })
  await page.getByRole('gridcell').and(page.locator(':focus')).waitFor()
  await page.keyboard.press('h')
  await page.getByRole('dialog', { name: 'History of CERT' }).getByText('Version 4').waitFor()
  return page
}

test('a version is shown on request, which is recorded, and leaves the page after 30 seconds', async () => {
  const page = await openHistory(member)
  await page.clock.install()
  const drawer = page.getByRole('dialog')
  expect(await drawer.getByRole('listitem').filter({ hasText: 'Version 1' }).textContent()).toMatch(
    /owner@example.com.*first certificate/,
  )
  expect(await drawer.getByRole('listitem').filter({ hasText: 'Version 3' }).textContent()).toContain('deleted')
  expect(await page.getByRole('button', { name: /Restore/ }).count()).toBe(0)
  expect(await page.content()).not.toContain('canary')

  const before = (await project.views()).length
  await page.getByRole('button', { name: 'Show version 2' }).click()
  await drawer.getByText('canary-two').waitFor()
  expect((await project.views()).length).toBe(before + 1)
  await expectAccessible(page)
  await page.clock.fastForward(31_000)
  await page.getByRole('button', { name: 'Show version 2' }).waitFor()
  expect(await page.content()).not.toContain('canary')

  await page.getByRole('button', { name: 'Show version 1' }).click()
  await drawer.getByText('canary-one').waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain('canary')
})

test('two versions are compared line by line, and one is restored after production was typed', async () => {
  const page = await openHistory(owner)
  await page.getByRole('checkbox', { name: 'Compare version 1' }).check()
  await page.getByRole('checkbox', { name: 'Compare version 2' }).check()
  await page.getByRole('button', { name: 'Compare versions 1 and 2' }).click()
  const difference = page.getByRole('region', { name: 'Difference' })
  await difference.waitFor()
  expect((await difference.textContent())?.split('\n').map((line) => line.trim())).toEqual([
    'removed: − canary-one',
    'added: + canary-two',
    'line',
    '',
  ])

  await page.getByRole('button', { name: 'Restore version 1' }).click()
  const confirm = page.getByRole('dialog', { name: 'Restore version 1' })
  await expectAccessible(page)
  expect(await confirm.getByRole('button', { name: 'Restore' }).isEnabled()).toBe(false)
  await confirm.getByLabel('Type production to confirm').fill('production')
  const { asked, release } = await holdRequests(page, /\/secret\?.*view=cells/)
  await confirm.getByRole('button', { name: 'Restore' }).click()
  // The question stays until the grid and the list behind it show the new version.
  await asked
  expect(await confirm.isVisible()).toBe(true)
  release()
  await confirm.waitFor({ state: 'detached' })
  await page.getByText('Version 5').waitFor()
  expect(await project.state('production')).toEqual({ CERT: 'canary-one\nline' })
  expect(await page.content()).not.toContain('canary')
})

test('an environment where the secret never had a value says so', async () => {
  const page = await openPage(service, {
    session: owner.session,
    path: `/main/${project.slug}?key=CERT&environment=production`,
    expectedErrors: [/404/],
  })
  await page.getByRole('gridcell').and(page.locator(':focus')).waitFor()
  await page.keyboard.press('h')
  await page.getByLabel('Environment', { exact: true }).selectOption('staging')
  await page.getByText('CERT has never had a value in staging.').waitFor()
})
