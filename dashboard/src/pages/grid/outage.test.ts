/** Edits survive what happens meanwhile: an ended session, a lost connection. Revealed values do not. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { cellOf, focusCell, openGrid, saveAll, tracesOf, typeInto } from '../../../../test/grid-page.ts'
import { password, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

async function signIn(): Promise<string> {
  const body = { email: owner.email, password }
  return (await service.call<{ accessToken: string }>('POST', '/v1/auth/login', { body })).body.accessToken
}

test('a person whose session ended signs in on top of the page and saves their edits', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'old' })
  const session = await signIn()
  const page = await openGrid(service, project, { session, expectedErrors: [/401/] })
  await typeInto(page, 'KEY', 0, 'new')
  await service.call('POST', '/v1/auth/logout', { token: session })
  await saveAll(page)
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.getByLabel('Password').fill(password)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('dialog').getByRole('button', { name: 'Save 1 change' }).click()
  await page.getByText('Saved 1 change').waitFor()
  expect(await project.state('development')).toEqual({ KEY: 'new' })
})

test('edits made offline are saved once the connection is back', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'old' })
  const page = await openGrid(service, project, {
    session: owner.session,
    expectedErrors: [/ERR_INTERNET/, /Failed to load/],
  })
  await typeInto(page, 'KEY', 0, 'new')
  await page.context().setOffline(true)
  await saveAll(page)
  await page.getByText('Coffer cannot be reached').waitFor()
  await page.context().setOffline(false)
  await page.getByRole('dialog').getByRole('button', { name: 'Save 1 change' }).click()
  await page.getByText('Saved 1 change').waitFor()
  expect(await project.state('development')).toEqual({ KEY: 'new' })
})

test('a revealed value leaves the page after 30 seconds, and an edited one is covered again', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'canary-of-the-clock', OTHER: 'x' })
  const page = await openPage(service, { session: owner.session, path: '/' })
  await page.clock.install()
  await page.goto(`/main/${project.slug}`)
  await focusCell(page, 'KEY', 0)
  await page.keyboard.press('Space')
  await cellOf(page, 'KEY', 0).getByText('canary-of-the-clock').waitFor()
  await typeInto(page, 'OTHER', 0, 'canary-of-the-edit')
  await page.clock.fastForward(31_000)
  // Once in its cell, and once whole below the table if the cell is too narrow.
  await page.getByText('canary-of-the-clock').first().waitFor({ state: 'detached' })
  await page.getByText('canary-of-the-edit').first().waitFor({ state: 'detached' })
  expect(await tracesOf(page)).not.toMatch(/canary/)
  await page.getByText('1 change in development').waitFor()
})

test('a change by others is seen when the window gets the focus; it becomes a conflict where one edits', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'old', OTHER: 'x' })
  const page = await openPage(service, { session: owner.session, path: '/' })
  await page.clock.install()
  await page.goto(`/main/${project.slug}`)
  await typeInto(page, 'KEY', 0, 'mine')
  await project.set('development', { KEY: 'theirs', LATER: 'y' })
  await page.clock.fastForward(10_000)
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)
  await page.getByRole('rowheader', { name: 'LATER' }).waitFor()
  await page.getByText('1 conflict').waitFor()
  await cellOf(page, 'KEY', 0)
    .getByText(/changed/)
    .waitFor()
})
