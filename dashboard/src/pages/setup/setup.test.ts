/** The first run: from an empty installation to a project with secrets. */
import { expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { fillAccount, setupLink, startEmptyService } from '../../../../test/first-run.ts'
import { setupCode } from '../../../../test/setup-code.ts'

test('an account, a project, secrets and snippets are made in one go', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: setupLink, expectedErrors: [/400/] })
  await page.getByText('1 of 3').waitFor()
  // The link holds the code, so nothing asks for it, and no later reader of the address sees it.
  await expect.poll(() => page.evaluate('location.href')).toBe(`${service.url}/setup`)
  expect(await page.getByLabel('Setup code').count()).toBe(0)
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
  const page = await openPage(service, { path: setupLink })
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

test('the typed address asks for the setup code in one field, and says where it stands', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { expectedErrors: [/401/] })
  await page.waitForURL('/setup')
  const code = page.getByLabel('Setup code')
  await code.waitFor()
  await page.getByText('In the link that the service printed at its start, and in the file setup-code').waitFor()
  expect(await page.evaluate('document.activeElement?.value')).toBe('')
  await expectAccessible(page)
  await code.fill(` ${setupCode} `)
  await fillAccount(page)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('2 of 3').waitFor()
})

test('a link with another code is refused beside a field for the right one', async () => {
  const service = await startEmptyService()
  const page = await openPage(service, { path: '/setup#code=a-code-of-somebody', expectedErrors: [/403/] })
  await fillAccount(page)
  const code = page.getByLabel('Setup code')
  expect(await code.count()).toBe(0)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('The first account needs the code in COFFER_SETUP_CODE').waitFor()
  expect(await code.inputValue()).toBe('a-code-of-somebody')
  expect(await code.getAttribute('aria-invalid')).toBe('true')
  await expectAccessible(page)
  await code.fill(setupCode)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByText('2 of 3').waitFor()
})
