// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a file here holds a reference.
/** Importing a file: existing keys, files of all formats, and an environment that fails. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
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

test('keys that exist are refused, kept or replaced, as the person chooses', async () => {
  const page = await openImport([/409/])
  await source(page).fill('{ "DATABASE_URL": "replaced" }')
  expect(await page.getByLabel('Format').inputValue()).toBe('json')
  await page.getByLabel('Keys that exist already').selectOption('Stop if any of them is there already')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('alert').filter({ hasText: 'DATABASE_URL' }).waitFor()
  expect(await page.getByRole('button', { name: 'Nothing to import' }).isEnabled()).toBe(false)

  await page.getByRole('button', { name: 'Back' }).click()
  await page.getByLabel('Keys that exist already').selectOption('Replace the values that are there')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByText('1 key changed').waitFor()
  await page.getByRole('button', { name: 'Import 1 value' }).click()
  await page.getByText('Imported 1 value into development.').waitFor()
  expect(await project.state('development')).toEqual({ DATABASE_URL: 'replaced' })
})

test('references in the file are text, if the person says so', async () => {
  const page = await openImport()
  await source(page).fill('{ "API_URL": "${DATABASE_URL}/x" }')
  await page.getByRole('checkbox', { name: 'Take ${…} as text, not as references' }).check()
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('button', { name: 'Import 1 value' }).click()
  await page.getByText('Imported 1 value into development.').waitFor()
  expect(await project.state('development')).toMatchObject({ API_URL: '$${DATABASE_URL}/x' })
})

test('if one environment fails, the others are written and the failed one is named', async () => {
  const page = await openImport([/404/])
  await source(page).fill('API_KEY=canary')
  await page.getByRole('checkbox', { name: 'staging' }).check()
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('button', { name: 'Import 2 values' }).waitFor()
  await project.must('DELETE', `/environment/${project.idOf('staging')}`)
  await page.getByRole('button', { name: 'Import 2 values' }).click()
  await page.getByRole('region', { name: 'staging' }).getByRole('alert').waitFor()
  expect(await page.getByRole('region', { name: 'development' }).textContent()).toContain('imported')
  expect(await project.state('development')).toEqual({ DATABASE_URL: 'as-it-was', API_KEY: 'canary' })
})

test('a file is read with its format, and forgotten when the dialog closes', async () => {
  const page = await openImport()
  const choose = (name: string, content: string) =>
    page
      .getByLabel('File to import')
      .setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(content, 'latin1') })
  await choose('picture.env', 'A=\xff\xfe')
  expect(await page.getByRole('alert').textContent()).toBe('picture.env is not text in UTF-8.')
  await choose('values.yaml', 'A: "canary"\n')
  await page.getByRole('alert').waitFor({ state: 'detached' })
  // The file is read after the note about the other one is gone.
  await expect.poll(() => source(page).inputValue()).toBe('A: "canary"\n')
  expect(await page.getByLabel('Format').inputValue()).toBe('yaml')

  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Import', exact: true }).click()
  expect(await source(page).inputValue()).toBe('')
})
