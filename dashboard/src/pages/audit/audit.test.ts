/** The audit log: filters live in the address, the export is exactly what the page shows, and the chain is verified. */
import { text } from 'node:stream/consumers'
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createLongWork } from '../../../../server/src/long-work.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { growTrail } from '../../../../test/grown-trail.ts'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw } from '../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'shop')
  await createProject(service, owner.session, 'mailer')
  for (let index = 0; index < 60; index++) await createToken(service, owner.session, { name: `token-${index}` })
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const trail = '/v1/workspace/main/audit'

test('a filter is in the address, survives a reload, and the export has exactly its entries', async () => {
  const page = await openPage(service, { session: owner.session, path: '/main/-/audit' })
  const rows = page.getByRole('region', { name: 'Entries, newest first' }).locator('tbody tr')
  await rows.first().waitFor()
  await expectAccessible(page)
  expect(await rows.count()).toBe(50)
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByText('workspace Main').waitFor()
  const { body: all } = await service.call<AuditEntry[]>('GET', `${trail}?limit=200`, { token: owner.session })
  expect(await rows.count()).toBe(all.length)

  await page.getByLabel('Action').selectOption('create')
  await page.getByLabel('What').fill('project')
  await page.keyboard.press('Enter')
  await page.getByLabel('Actor').selectOption(owner.email)
  await page.waitForURL(/action=CREATE/)
  await page.waitForURL(/entity=project/)
  await page.waitForURL(/actor=/)
  await page.reload()
  await rows.first().waitFor()
  expect(await rows.allTextContents()).toEqual([
    expect.stringContaining('project mailercreate'),
    expect.stringContaining('project shopcreate'),
  ])
  expect(await page.getByLabel('What').inputValue()).toBe('project')
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Export' }).click(),
  ])
  expect(download.suggestedFilename()).toBe('audit-main.ndjson')
  const lines = (await text(await download.createReadStream())).trim().split('\n')
  const exported: AuditEntry[] = lines.map((line) => JSON.parse(line))
  const wanted = all.filter(({ action, entity }) => action === 'CREATE' && entity.type === 'project')
  expect(exported).toEqual(wanted.toReversed())

  await page.getByRole('button', { name: 'project shop' }).press('Enter')
  const drawer = page.getByRole('dialog', { name: 'create project shop' })
  const entry = exported[0]
  expect(await drawer.textContent()).toContain(entry?.requestId)
  expect(await drawer.textContent()).toContain('The address was not confirmed then.')
  expect(await drawer.getByRole('region', { name: 'After' }).textContent()).toContain('"slug": "shop"')
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  await page.getByLabel('Project').selectOption('mailer')
  await page.waitForURL(/project=mailer/)
  await page.getByLabel('From').fill('2040-01-01T00:00')
  await page.getByText('No entry matches.').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await page.waitForURL('/main/-/audit')
})

test('the chain is verified, and a changed entry is named', async () => {
  const page = await openPage(service, { session: owner.session, path: '/main/-/audit' })
  await page.getByRole('button', { name: 'Verify' }).click()
  const { body } = await service.call<{ entries: number }>('GET', `${trail}/verify`, { token: owner.session })
  await page.getByText(`${body.entries} entries, chain intact.`).waitFor()
  const raw = await openRaw(service)
  onTestFinished(() => raw.close())
  await raw.query("update audit_entry set actor_name = 'changed' where chain_id = ? and sequence = 5", [workspaceId])
  await page.getByRole('button', { name: 'Verify' }).click()
  await page.getByText('The chain breaks at entry 5: This entry was changed.').waitFor()
})

test('a search says how far it looked, and goes on by itself until it has looked at everything', async () => {
  let ms = 0
  // Every look at the clock finds that a second has passed, so each request looks at one stretch.
  const slow = await startService({}, { longWork: createLongWork(() => (ms += 1_000)) })
  onTestFinished(() => slow.stop())
  const { session } = await registerOwner(slow)
  const { id } = (await slow.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body
  await growTrail(slow, id, { rows: 2_000, entityName: (index) => (index === 10 ? 'RARE' : 'COMMON') })
  const page = await openPage(slow, { session, path: '/main/-/audit?q=rare' })
  await page.getByText(/^Looked back to .*, and still looking\.$/).waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'secret RARE' }).waitFor()
  await page.getByText(/^Looked back to/).waitFor({ state: 'detached' })
  await page.getByLabel('Search').fill('nothing is called this')
  await page.keyboard.press('Enter')
  await page.getByText(/^Looked back to/).waitFor()
  await page.getByText('No entry matches.').waitFor()
})

test('a search with matches stops once it has found a page of them, and goes on with the button', async () => {
  let ms = 0
  const slow = await startService({}, { longWork: createLongWork(() => (ms += 1_000)) })
  onTestFinished(() => slow.stop())
  const { session } = await registerOwner(slow)
  const { id } = (await slow.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })).body
  // Each request looks at 500 entries.
  await growTrail(slow, id, { rows: 4_000, entityName: (index) => (index % 20 === 0 ? 'SOME' : 'COMMON') })
  const page = await openPage(slow, { session, path: '/main/-/audit?q=some' })
  const more = page.getByRole('button', { name: 'Load more' })
  const found = page.getByRole('button', { name: 'secret SOME' })
  await more.waitFor()
  const first = await found.count()
  expect(first).toBeLessThan(100)
  await more.click()
  await found.nth(first + 49).waitFor()
  await more.waitFor()
  expect(await found.count()).toBeLessThan(first + 100)
})

test('a developer is told that the log is for admins', async () => {
  const user = await addUser(service, 'developer@example.com', { workspaceId, role: 'developer' })
  const page = await openPage(service, { session: user.session, path: '/main/-/audit' })
  await page.getByText('You cannot see the audit log of this workspace').waitFor()
  expect(await page.getByRole('navigation', { name: 'Workspace' }).getByText('Audit').count()).toBe(0)
  expect((await service.call('GET', trail, { token: user.session })).status).toBe(403)
})
