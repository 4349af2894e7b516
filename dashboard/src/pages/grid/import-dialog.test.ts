/** Importing a file: a preview by the service, errors at their line, and nothing written before the person agrees. */
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
  await project.set('development', { DATABASE_URL: 'as-it-was' })
})

const source = (page: Page) => page.getByLabel('Paste your secrets, or drop a file here')

async function openImport(expectedErrors: readonly RegExp[] = []): Promise<Page> {
  const page = await openPage(service, { session: owner.session, path: `/main/${project.slug}`, expectedErrors })
  await page.getByRole('button', { name: 'Import', exact: true }).click()
  await source(page).waitFor()
  return page
}

test('a file is previewed for each environment and imported after production was typed', async () => {
  const page = await openImport()
  await expectAccessible(page)
  await source(page).fill('DATABASE_URL=canary-url\nAPI_KEY="canary\nkey"')
  await page.getByRole('checkbox', { name: 'production' }).check()
  await page.getByRole('button', { name: 'Preview' }).click()

  const development = page.getByRole('region', { name: 'development' })
  await development.getByText('1 key created').waitFor()
  expect(await development.textContent()).toContain('1 key there already, and kept')
  expect(await page.getByRole('region', { name: 'production' }).textContent()).toContain('2 keys created')
  expect(await page.content()).not.toContain('canary')
  expect(await project.state('production')).toEqual({})
  await expectAccessible(page)

  const run = page.getByRole('button', { name: 'Import 3 values' })
  expect(await run.isEnabled()).toBe(false)
  await page.getByLabel('Message').fill('from the old server')
  await page.getByLabel('Type production to confirm').fill('production')
  const { asked, release } = await holdRequests(page, /\/secret\?.*view=cells/)
  await run.click()
  // The dialog stays until the grid behind it shows the new values.
  await asked
  expect(await page.getByRole('dialog').isVisible()).toBe(true)
  release()
  await page.getByText('Imported 3 values into development and production.').waitFor()
  expect(await project.state('development')).toEqual({ DATABASE_URL: 'as-it-was', API_KEY: 'canary\nkey' })
  expect(await project.state('production')).toEqual({ DATABASE_URL: 'canary-url', API_KEY: 'canary\nkey' })
  expect((await project.revisions('production'))[0]?.message).toBe('from the old server')
})

test('a line that cannot be read is named and selected, and nothing is written', async () => {
  const page = await openImport([/400/])
  await source(page).fill('# comment\nA=1\nnot a line\nB=2')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('alert').filter({ hasText: 'Line 3: expected KEY=value' }).waitFor()
  await expectAccessible(page)
  // Typing replaces the selected line.
  await page.keyboard.type('C=3')
  expect(await source(page).inputValue()).toBe('# comment\nA=1\nC=3\nB=2')
  expect(await project.state('development')).toEqual({ DATABASE_URL: 'as-it-was' })
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByText('3 keys created').waitFor()
})

test('a member is offered no import', async () => {
  const page = await openPage(service, { session: member.session, path: `/main/${project.slug}` })
  await page.getByText('DATABASE_URL').first().waitFor()
  expect(await page.getByRole('button', { name: 'Import', exact: true }).count()).toBe(0)
})
