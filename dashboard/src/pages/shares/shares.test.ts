/** Lending a secret: sealed in the browser, listed with its views, revoked. */
import { unlock } from '@coffer/sdk/share-envelope'
import type { Locator } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createShareProject, expectGone, type ShareProject } from '../../../../test/share.ts'

const canary = 'canary-share-value-7f3a'

let service: TestService
let owner: TestUser
let project: ShareProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
  await project.set('development', { DATABASE_URL: canary, HOST: 'db.example.test', URL: `\${HOST}/${canary}` })
})
afterAll(() => service.stop())

const open = (session = owner.session) => openPage(service, { session, path: `/main/${project.slug}/shares` })

const linkIn = (dialog: Locator) => dialog.getByLabel('Link of the share').inputValue()

test('a secret is sealed in the browser, and only its link opens it', async () => {
  const page = await open()
  await expectAccessible(page)
  const sent: string[] = []
  page.on('request', (request) => sent.push(request.url() + (request.postData() ?? '')))
  await page.getByRole('button', { name: 'New share' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('checkbox', { name: 'DATABASE_URL' }).check()
  await dialog.getByLabel('Password').fill('tell it on the phone')
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Create the link' }).click()
  await linkIn(dialog)
  // A click beside the dialog does not lose a link that is shown only once.
  await page.mouse.click(5, 5)
  const link = await linkIn(dialog)
  await expectAccessible(page)
  expect(sent.join('\n')).not.toContain(canary)

  const { hash, pathname } = new URL(link)
  expect(sent.join('\n')).not.toContain(hash.slice(1))
  const { open: openContent, ...key } = await unlock(hash, 'tell it on the phone')
  const { body } = await project.view(pathname.split('/').at(-1) ?? '', key)
  const content = await openContent(body.ciphertext ?? '', body.commit ?? '')
  expect(content).toEqual({ t: 'kv', items: [{ name: 'DATABASE_URL', value: canary }] })

  await dialog.getByRole('button', { name: 'Done' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(hash.slice(1))
  await page.reload()
  await page.getByText('used up').waitFor()
  await page.getByRole('button', { name: 'Views of DATABASE_URL' }).click()
  await page.getByRole('dialog').getByText('opened').waitFor()
  await expectAccessible(page)
})

test('a secret with references is filled in by the service, and the page says so', async () => {
  const page = await open()
  await page.getByRole('button', { name: 'New share' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('checkbox', { name: 'URL', exact: true }).check()
  await dialog.getByText('which the service fills in').waitFor()
  expect(await dialog.getByRole('checkbox', { name: 'Encrypt in this browser' }).isChecked()).toBe(false)
  await dialog.getByRole('button', { name: 'Create the link' }).click()
  const link = await linkIn(dialog)
  const { body } = await project.view(new URL(link).pathname.split('/').at(-1) ?? '')
  expect(body.secrets).toEqual([{ name: 'URL', value: `db.example.test/${canary}` }])
})

test('a value that is gone meanwhile is not lent as an empty one', async () => {
  await project.set('development', { GOING: canary })
  await project.allowPersonal('development')
  await project.must('PUT', '/secret/GOING/value', { environmentId: 'development', value: 'mine', isPersonal: true })
  const page = await open()
  await page.getByRole('button', { name: 'New share' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('checkbox', { name: 'GOING' }).check()
  await project.remove('development', 'GOING')
  await dialog.getByRole('button', { name: 'Create the link' }).click()
  await dialog.getByText('GOING no longer has a value in this environment.').waitFor()
})

test('a text is lent and revoked', async () => {
  const page = await open()
  await page.getByRole('button', { name: 'New share' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Share', { exact: true }).selectOption('text')
  await dialog.getByLabel('Text').fill('<b>no markup</b>\n雪')
  await dialog.getByLabel('Label').fill('for the plumber')
  await dialog.getByRole('button', { name: 'Create the link' }).click()
  const link = await linkIn(dialog)
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Revoke for the plumber' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('revoked', { exact: true }).waitFor()
  expectGone(await project.meta(new URL(link).pathname.split('/').at(-1) ?? ''))
})

test('a member is offered no shares', async () => {
  const [workspace] = (await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })).body
  const member = await addUser(service, 'member@example.com', { workspaceId: workspace?.id ?? '', role: 'member' })
  const page = await open(member.session)
  await page.getByText('Shares are made by people who write secrets').waitFor()
})
