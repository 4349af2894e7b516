/** The palette and the keys that work on every page. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, createProject, registerOwner, startService, type TestService } from '../../../../test/harness.ts'

let service: TestService
let session: string

beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
  await createProject(service, session, 'shop')
  await createProject(service, session, 'billing')
  const { status } = await service.call('POST', '/v1/workspace/main/project/billing/secret/import', {
    token: session,
    body: { environmentId: 'staging', format: 'dotenv', content: 'ALPHA=1\nSTRIPE_SECRET_KEY=hush' },
  })
  expect(status).toBe(200)
})
afterAll(() => service.stop())

/** The entry that Enter opens. */
const chosen = (page: Page, name: RegExp) => page.getByRole('option', { name }).and(page.locator('[data-highlighted]'))

test('Ctrl+K finds a secret of any project by its name and goes to its row', async () => {
  const page = await openPage(service, { session, path: '/main/shop' })
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  await page.keyboard.press('Control+k')
  const input = page.getByRole('combobox', { name: 'Go to' })
  await input.waitFor()
  await expectAccessible(page)
  await input.fill('stripe')
  await chosen(page, /STRIPE_SECRET_KEY/).waitFor()
  await page.keyboard.press('Enter')
  await input.waitFor({ state: 'detached' })
  await page.waitForURL(/\/main\/billing/)
  await page.locator('[role=row]:focus-within', { hasText: 'STRIPE_SECRET_KEY' }).waitFor()
})

test('letters go to pages, unless a field has the focus or they are switched off', async () => {
  const page = await openPage(service, { session, path: '/main' })
  const heading = page.getByRole('heading', { level: 1 })
  const search = page.getByRole('searchbox')
  await search.focus()
  await page.keyboard.type('gs')
  expect(await search.inputValue()).toBe('gs')
  await search.fill('')
  await heading.click()
  await page.keyboard.press('g')
  await page.keyboard.press('s')
  await page.waitForURL('/main/-/settings')
  await page.evaluate("localStorage.setItem('coffer-letter-keys', 'off')")
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('all projects')
  await chosen(page, /all projects/i).waitFor()
  expect(new URL(page.url()).pathname).toBe('/main/-/settings')
  await page.keyboard.press('Enter')
  await page.waitForURL('/main')
})

test('a member is offered no page that is for admins', async () => {
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
  const member = await addUser(service, 'member@example.com', { workspaceId: workspace.body.id, role: 'member' })
  const page = await openPage(service, { session: member.session, path: '/main/shop' })
  await page.getByRole('button', { name: /Go to/ }).click()
  await page.getByRole('option', { name: 'Trash' }).waitFor()
  const options = await page.getByRole('option').allTextContents()
  expect(options).toContain('Compare')
  expect(options.filter((text) => /Settings|Audit|Syncs|Shares|Members|Identities/.test(text))).toEqual([])
})
