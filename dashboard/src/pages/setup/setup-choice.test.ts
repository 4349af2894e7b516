/** The first run: other ways through it, and refusals. */
import { expect, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { fillAccount, setupLink, startEmptyService } from '../../../../test/first-run.ts'
import { registerOwner } from '../../../../test/harness.ts'

test('one secret can be typed instead of a file', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: setupLink, expectedErrors: [/400/] })
  await fillAccount(page)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByLabel('Project').fill('Shop')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.getByRole('button', { name: 'Type one secret instead' }).click()
  const name = page.getByLabel('Name')
  await name.fill('not allowed!')
  await page.getByLabel('Value').fill('hush')
  await page.getByLabel('Environment').selectOption('staging')
  expect(await page.getByLabel('Value').getAttribute('type')).toBe('password')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Has characters or a format that is not allowed.').waitFor()
  expect(await name.getAttribute('aria-invalid')).toBe('true')
  await name.fill('API_KEY')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Your secrets are in staging.').waitFor()
  expect(await page.getByRole('region', { name: 'On your machine' }).textContent()).toContain('-e staging')
})

test('nothing has to be entered after the account', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: setupLink })
  await fillAccount(page)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByLabel('Project').fill('Shop')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.getByRole('button', { name: 'Skip' }).click()
  await page.getByText('Once the project has secrets').waitFor()
})

test.each([
  ['a short password', { password: 'short' }, 'Password', 'Must have 12 characters or more.'],
  ['a reserved slug', { slug: 'project' }, 'Slug', '"project" is a reserved word.'],
])('%s is refused beside its field', async (_, fields, label, sentence) => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: setupLink, expectedErrors: [/400/] })
  await fillAccount(page, fields)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText(sentence).waitFor()
  expect(await page.getByLabel(label).getAttribute('aria-invalid')).toBe('true')
})

test('an installation that has an account shows its login page instead', async () => {
  const service = await startEmptyService()
  await registerOwner(service)
  const page = await openPage(service, { path: '/setup', expectedErrors: [/401/] })
  await page.waitForURL('/login')
})
