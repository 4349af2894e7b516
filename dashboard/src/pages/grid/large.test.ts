/** Thousands of secrets: few requests, and few rows in the page. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

async function fill(count: number): Promise<string> {
  const project = await createSecretProject(service, owner.session)
  const names = Array.from({ length: count }, (_, index) => `SECRET_${String(index).padStart(5, '0')}`)
  for (const environment of ['development', 'staging', 'production']) {
    await project.set(environment, Object.fromEntries(names.map((name) => [name, `${environment} ${name}`])))
  }
  return project.slug
}

async function open(slug: string): Promise<{ page: Page; calls: string[] }> {
  const page = await openPage(service, { session: owner.session, path: '/healthz', expectedErrors: [/404/] })
  const calls: string[] = []
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (pathname.startsWith('/v1/')) calls.push(pathname)
  })
  await page.goto(`/main/${slug}`)
  await page.getByRole('rowheader', { name: 'SECRET_00000' }).waitFor()
  await page.waitForLoadState('networkidle')
  return { page, calls }
}

test('a thousand secrets need at most six requests', async () => {
  const { page, calls } = await open(await fill(1_000))
  expect(calls.length, calls.join('\n')).toBeLessThanOrEqual(6)
  expect(await page.getByRole('grid').getAttribute('aria-rowcount')).toBe('1001')
})

test('of five thousand rows only those in sight are in the page, also after a filter and a jump to the end', async () => {
  const { page } = await open(await fill(5_000))
  const rows = page.getByRole('row')
  expect(await rows.count()).toBeLessThanOrEqual(40)
  await page.keyboard.press('/')
  await page.keyboard.type('secret_04')
  await page.getByRole('rowheader', { name: 'SECRET_04000' }).waitFor()
  await page.keyboard.type('999')
  await page.getByRole('rowheader', { name: 'SECRET_04999' }).waitFor()
  // Each letter narrows the rows, and the last ones show this row before they leave it alone.
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByRole('searchbox').fill('')
  await page.getByRole('rowheader', { name: 'SECRET_00000' }).click()
  await page.keyboard.press('Control+End')
  await page.getByRole('rowheader', { name: 'SECRET_04999' }).waitFor()
  await expect.poll(() => rows.count()).toBeLessThanOrEqual(40)
})
