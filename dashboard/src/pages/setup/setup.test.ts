/** The first run: from an empty installation to a project with secrets. */
import { expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { fillAccount, startEmptyService } from '../../../../test/first-run.ts'

test('an account, a project, secrets and snippets are made in one go', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { expectedErrors: [/401/, /400/] })
  await page.waitForURL('/setup')
  await page.getByText('1 of 3').waitFor()
  await expectAccessible(page)
  await fillAccount(page, { workspace: 'Café & Söhne' })
  expect(await page.getByLabel('Slug').inputValue()).toBe('cafe-sohne')
  await page.getByRole('button', { name: 'Create account' }).click()

  await page.getByText('2 of 3').waitFor()
  await expectAccessible(page)
  // The first field of a step has the focus.
  await page.keyboard.type('Web Shop')
  await page.getByRole('button', { name: 'Create project' }).click()

  const paste = page.getByLabel('Paste your .env')
  await paste.fill('GOOD=1\nnot a pair\n')
  await page.getByText('Line 2: expected KEY=value').waitFor()
  expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
  await expectAccessible(page)
  await paste.fill('DATABASE_URL=postgres://localhost/shop\nexport GREETING="good day"\n')
  await page.getByText('2 secrets: DATABASE_URL, GREETING').waitFor()
  await page.getByRole('button', { name: 'Save 2 secrets' }).click()

  await page.getByText('3 of 3').waitFor()
  await expectAccessible(page)
  const machine = await page.getByRole('region', { name: 'On your machine' }).textContent()
  expect(machine).toContain(`coffer login ${service.url}`)
  expect(machine).toContain('coffer init -w cafe-sohne -p web-shop -e development')
  expect(await page.getByRole('region', { name: 'In Docker' }).textContent()).toContain('COFFER_PROJECT=web-shop')
  await page.getByRole('link', { name: 'Go to your secrets' }).click()
  await page.waitForURL('/cafe-sohne/web-shop')
  await page.getByRole('heading', { name: 'Web Shop' }).waitFor()

  const path = '/v1/workspace/cafe-sohne/project/web-shop/secret?environmentId=development'
  const kept = await page.evaluate(`fetch(${JSON.stringify(path)}).then((answer) => answer.json())`)
  expect(kept).toMatchObject([
    { name: 'DATABASE_URL', values: [{ value: 'postgres://localhost/shop' }] },
    { name: 'GREETING', values: [{ value: 'good day' }] },
  ])
})

test('a reload after the first step continues in the workspace', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: '/setup' })
  await fillAccount(page)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('2 of 3').waitFor()
  await page.reload()
  await page.waitForURL('/main')
  await page.getByRole('heading', { name: 'Create your first project' }).waitFor()
  await expectAccessible(page)
  await page.getByLabel('Name').fill('Shop')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.waitForURL('/main/shop')
})

test('the setup code comes from the address and is removed from it; a wrong one is refused beside its field', async () => {
  const service = await startEmptyService({ COFFER_SETUP_CODE: 'a-code-of-the-operator' })
  const page = await openPage(service, { path: '/setup#code=a-code-of-somebody', expectedErrors: [/403/] })
  const code = page.getByLabel('Setup code')
  await code.waitFor()
  expect(await code.inputValue()).toBe('a-code-of-somebody')
  await expect.poll(() => page.evaluate('location.hash')).toBe('')
  await fillAccount(page)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('The first account needs the code in COFFER_SETUP_CODE').waitFor()
  expect(await code.getAttribute('aria-invalid')).toBe('true')
  // A refusal leaves the focus on the button.
  expect(await page.evaluate('document.activeElement?.textContent')).toBe('Create account')
  await expectAccessible(page)
  await code.fill('a-code-of-the-operator')
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('2 of 3').waitFor()
})
