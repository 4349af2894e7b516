/** Somebody with several grants is offered, in each environment, exactly what the service accepts there. */
import type { Scope } from '@coffer/contract/field'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { cellOf, focusCell, openGrid, saveAll, typeInto } from '../../../../test/grid-page.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
/** Developer in staging, who reads the whole project. */
let developer: TestUser
/** Admin of staging, who reads production and nothing else. */
let admin: TestUser

const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  await project.set('staging', { ONE: 'staged', ONLY: 'here' })
  await project.set('staging', { ONE: 'staged again' })
  await project.set('production', { ONE: 'live' })
  await project.set('production', { ONE: 'live again' })
  await project.set('production', { GONE: 'x' })
  await project.must('DELETE', '/secret/GONE')
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const workspaceId = body[0]?.id ?? ''
  const staging = { ...nothing, environments: [project.idOf('staging')] }
  const production = { ...nothing, environments: [project.idOf('production')] }
  developer = await addUser(service, 'developer@example.com', {
    ...{ workspaceId, role: 'member', scope: { ...nothing, projects: [project.id] } },
    further: [{ role: 'developer', scope: staging }],
  })
  admin = await addUser(service, 'admin@example.com', {
    ...{ workspaceId, role: 'admin', scope: staging },
    further: [{ role: 'member', scope: production }],
  })
})
afterAll(() => service.stop())

test('the grid edits where they write, and only reads elsewhere', async () => {
  const page = await openGrid(service, project, { session: developer.session })
  const heads = await page.getByRole('columnheader').allTextContents()
  const locked = ', you can read, not write'
  expect(heads).toEqual(['Name', `development${locked}`, 'staging', `production${locked}`])
  await cellOf(page, 'ONE', 2).hover()
  const buttons = cellOf(page, 'ONE', 2).getByRole('button')
  await expect.poll(() => buttons.allTextContents()).toEqual(['Reveal', 'Copy', ''])
  expect(await cellOf(page, 'ONE', 2).getAttribute('aria-readonly')).toBe('true')
  await cellOf(page, 'ONE', 2).dblclick({ position: { x: 20, y: 18 } })
  for (const key of ['F2', 'Delete', 'e']) await page.keyboard.press(key)
  expect(await page.getByRole('grid').getByRole('textbox').count()).toBe(0)
  expect(await page.getByRole('dialog').count()).toBe(0)
  await page.getByRole('rowheader', { name: 'ONE' }).dblclick()
  expect(await page.getByRole('grid').getByRole('textbox').count()).toBe(0)

  await typeInto(page, 'ONE', 1, 'mine')
  await saveAll(page)
  await page.getByText('Saved 1 change in staging.').waitFor()
  expect((await project.state('staging')).ONE).toBe('mine')
  expect((await project.state('production')).ONE).toBe('live again')
  await expectAccessible(page)
})

test('new secrets, imports and restored versions are offered in writable environments alone', async () => {
  const page = await openGrid(service, project, { session: developer.session })
  await page.getByRole('button', { name: /New secret/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Value in staging').waitFor()
  expect(await dialog.getByLabel(/^Value in/).count()).toBe(1)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Import' }).click()
  await dialog.getByRole('checkbox', { name: 'staging' }).waitFor()
  expect(await dialog.getByRole('checkbox', { name: /^(development|staging|production)$/ }).count()).toBe(1)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await dialog.waitFor({ state: 'detached' })
  await focusCell(page, 'ONE', 1)
  await page.keyboard.press('h')
  const environment = dialog.getByLabel('Environment')
  await dialog.getByRole('button', { name: 'Restore version 1' }).waitFor()
  await environment.selectOption({ label: 'production' })
  await dialog.getByRole('button', { name: 'Show version 1' }).waitFor()
  expect(await dialog.getByRole('button', { name: /^Restore/ }).count()).toBe(0)
})

test.each([
  ['staging', 'production', false],
  ['production', 'staging', true],
])('promotion from %s to %s is offered: %s', async (from, to, isOffered) => {
  const path = `/main/${project.slug}/compare?from=${from}&to=${to}`
  const page = await openPage(service, { session: developer.session, path })
  await page.getByRole('rowheader', { name: 'ONE' }).waitFor()
  expect(await page.getByRole('button', { name: 'Promote' }).count()).toBe(isOffered ? 1 : 0)
  expect((await page.getByRole('checkbox').count()) > 0).toBe(isOffered)
})

test.each([
  ['staging', true],
  ['production', false],
])('a revision of %s can be restored: %s', async (environment, isOffered) => {
  const path = `/main/${project.slug}/history?environment=${environment}`
  const page = await openPage(service, { session: developer.session, path })
  await page.getByRole('button', { name: 'Revision 1', exact: true }).click()
  await page.getByRole('dialog').getByText('It changed').waitFor()
  expect(await page.getByRole('region', { name: 'Restore' }).count()).toBe(isOffered ? 1 : 0)
})

test('shares take secrets of writable environments; the trash restores for those who write everywhere', async () => {
  const page = await openPage(service, { session: developer.session, path: `/main/${project.slug}/shares` })
  await page.getByRole('button', { name: 'New share' }).click()
  const options = page.getByLabel('Environment').getByRole('option')
  await page.getByLabel('Environment').waitFor()
  expect(await options.allTextContents()).toEqual(['staging'])
  await page.goto(`/main/${project.slug}/trash`)
  await page.getByRole('rowheader', { name: 'GONE' }).waitFor()
  expect(await page.locator('main').getByRole('button').count()).toBe(0)
})

test('an admin of one environment changes that one, and reads the other in the settings', async () => {
  const page = await openPage(service, { session: admin.session, path: `/main/${project.slug}/settings` })
  const staging = page.getByRole('row', { name: /^staging/ })
  const production = page.getByRole('row', { name: /^production/ })
  await staging.getByRole('button', { name: 'Environment staging' }).waitFor()
  expect(await production.locator('button, input').count()).toBe(0)
  expect(await page.getByRole('button', { name: /New environment|Delete project/ }).count()).toBe(0)
  await expectAccessible(page)
  await staging.getByRole('checkbox').check()
  await page.goto(`/main/${project.slug}/syncs`)
  await page.getByRole('heading', { name: 'Push secrets to the systems that need them' }).waitFor()
})

test('the palette leads to the pages of a project that are theirs', async () => {
  const page = await openGrid(service, project, { session: developer.session })
  await page.keyboard.press('Control+k')
  await page.getByRole('option', { name: 'Shares' }).waitFor()
  expect(await page.getByRole('option', { name: 'Syncs' }).count()).toBe(0)
})
