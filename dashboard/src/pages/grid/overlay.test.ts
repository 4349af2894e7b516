/** Side editor, menus and dialogs of the grid, each accessible while it is open. */
import type { Secret } from '@coffer/contract/secret'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/browser.ts'
import { cellOf, focusCell, focusOf, openGrid, rowOf, saveAll } from '../../../../test/grid-page.ts'
import {
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
const ref = (name: string) => `\${${name}}`

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

async function close(page: Page): Promise<void> {
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

test('the side editor takes several lines, completes references, and checks JSON', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { HOST: 'db', TEXT: 'one\ntwo', PLAIN: 'x' })
  await project.set('staging', { HOST: 'db' })
  const page = await openGrid(service, project, { session: owner.session })
  await focusCell(page, 'TEXT', 0)
  await page.keyboard.press('Enter')
  const drawer = page.getByRole('dialog', { name: 'TEXT in development' })
  const value = drawer.getByLabel('Value', { exact: true })
  expect(await value.inputValue()).toBe('one\ntwo')
  await value.fill('')
  await page.keyboard.type('a ${ho')
  await drawer.getByRole('option', { name: 'HOST' }).waitFor()
  await expectAccessible(page)
  await page.keyboard.press('Enter')
  expect(await value.inputValue()).toBe(`a ${ref('HOST')}`)
  await page.keyboard.type(' ${stag')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await value.inputValue()).toBe(`a ${ref('HOST')} ${ref('staging.HOST')}`)
  await drawer.getByLabel('Type').selectOption('JSON')
  await drawer.getByLabel('Note').fill('used by the shop')
  await drawer.getByRole('button', { name: 'Save note and type' }).click()
  await page.getByText('Saved note and type.').waitFor()
  await value.fill('{"a": 1')
  await drawer.getByText('This is not valid JSON.').waitFor()
  await expectAccessible(page)
  await value.fill('{"a":\n1}')
  await drawer.getByText('This is not valid JSON.').waitFor({ state: 'detached' })
  await drawer.getByRole('button', { name: 'Keep change' }).click()
  await saveAll(page)
  await page.getByText('Saved 1 change').waitFor()
  expect((await project.state('development')).TEXT).toBe('{"a":\n1}')
  const secret = await project.must<Secret>('GET', '/secret/TEXT')
  expect(secret).toMatchObject({ note: 'used by the shop', dataType: 'json' })
})

test('pasting several lines into a cell goes on in the side editor', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'x' })
  const page = await openGrid(service, project, { session: owner.session })
  await page.evaluate(`navigator.clipboard.writeText('-----BEGIN-----\\nabc\\n-----END-----\\n')`)
  await focusCell(page, 'KEY', 0)
  await page.keyboard.press('Enter')
  await cellOf(page, 'KEY', 0).getByRole('textbox').press('Control+a')
  await page.keyboard.press('Control+v')
  await page.getByRole('dialog').getByRole('button', { name: 'Keep change' }).click()
  await saveAll(page)
  await page.getByText('Saved 1 change').waitFor()
  expect(await project.state('development')).toEqual({ KEY: '-----BEGIN-----\nabc\n-----END-----\n' })
})

test('one’s own value stands beside the shared one; a reminder marks the row', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.allowPersonal('development')
  await project.set('development', { KEY: 'shared' })
  const page = await openGrid(service, project, { session: owner.session })
  const cell = cellOf(page, 'KEY', 0)
  await cell.click({ position: { x: 20, y: 18 } })
  await page.keyboard.press('e')
  const drawer = page.getByRole('dialog')
  await drawer.getByLabel('Just for me').check()
  const own = drawer.getByLabel('Your own value')
  expect(await own.inputValue()).toBe('shared')
  await own.fill('mine')
  const day = new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 10)
  await drawer.getByLabel('Next on').fill(day)
  await drawer.getByRole('button', { name: 'Save reminder' }).click()
  await page.getByText('Saved the reminder.').waitFor()
  await drawer.getByRole('button', { name: 'Keep change' }).click()
  await rowOf(page, 'KEY')
    .getByText(/^rotate \d+ \w+$/)
    .waitFor()
  await saveAll(page)
  await page.getByText('Saved 1 change').waitFor()
  const read = () => project.must<Secret>('GET', '/secret/KEY?environmentId=development')
  expect((await read()).values.map(({ value }) => value)).toEqual(['shared', 'mine'])
  expect((await read()).values[0]?.reminder?.nextReminderDate).toBe(`${day}T00:00:00.000Z`)
  // The key is for the cell, which gets the focus back once the dialog is gone.
  await expect.poll(() => focusOf(page)).toBe('KEY 2')
  await page.keyboard.press('e')
  await drawer.getByRole('button', { name: 'Remove my value' }).click()
  await drawer.waitFor({ state: 'detached' })
  await saveAll(page)
  await expect.poll(async () => (await read()).values.map(({ value }) => value)).toEqual(['shared'])
})

test('every overlay is accessible; columns move and hide, and a column is revealed after one question', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'first value', TWO: 'second value' })
  const page = await openGrid(service, project, { session: owner.session })
  await focusCell(page, 'ONE', 0)
  for (const key of ['h', '?', 'n']) {
    await page.keyboard.press(key)
    await page.getByRole('dialog').waitFor()
    await expectAccessible(page)
    await close(page)
  }
  for (const name of ['Import', 'Use in app']) {
    await page.getByRole('button', { name }).click()
    await page.getByRole('dialog').waitFor()
    await expectAccessible(page)
    await close(page)
  }
  await page.getByRole('button', { name: 'More filters' }).click()
  await page.getByRole('menu').waitFor()
  await expectAccessible(page)
  await page.keyboard.press('Escape')

  const head = page.getByRole('columnheader')
  await page.getByRole('button', { name: 'development', exact: true }).click()
  await expectAccessible(page)
  await page.getByRole('menuitem', { name: 'Reveal column…' }).click()
  const question = page.getByRole('dialog')
  await question.getByText('This is recorded in the audit log.').waitFor()
  await expectAccessible(page)
  await question.getByRole('button', { name: 'Reveal column' }).click()
  await page.getByText('first value').waitFor()
  await page.getByText('second value').waitFor()
  expect(await project.views()).toHaveLength(1)
  await page.getByRole('button', { name: 'development', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Move right' }).click()
  expect(await head.allTextContents()).toEqual(['Name', 'staging', 'development', 'production'])
  await page.getByRole('button', { name: 'production', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Hide' }).click()
  await page.reload()
  await head.nth(2).waitFor()
  expect(await head.allTextContents()).toEqual(['Name', 'staging', 'development'])

  await page.getByRole('rowheader').first().hover()
  await page.getByRole('button', { name: 'Actions for ONE' }).click()
  await page.getByRole('menuitem', { name: 'Delete everywhere…' }).click()
  await expectAccessible(page)
  await page.getByRole('dialog').getByRole('button', { name: 'Delete ONE' }).click()
  await page.getByText('ONE is in the trash.').waitFor()
  expect(await project.state('development')).toEqual({ TWO: 'second value' })
})

test('an empty project asks for a .env file, and a file pasted on the grid is offered for import', async () => {
  const { slug } = await createProject(service, owner.session, 'empty-shop')
  const page = await openGrid(service, await createFilled(), { session: owner.session })
  await page.evaluate(`navigator.clipboard.writeText('A=1\\nB=2\\n')`)
  await page.getByRole('rowheader').first().click()
  await page.keyboard.press('Control+v')
  await page.getByRole('dialog', { name: /Import/ }).waitFor()
  await close(page)
  await page.goto(`/main/${slug}`)
  await page.getByLabel('Your .env file').fill('A=1\nB=2')
  await expectAccessible(page)
  await page.getByText('coffer import .env').waitFor()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('dialog', { name: /Import/ }).waitFor()
})

async function createFilled() {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'x' })
  return project
}

test('names that become no variables are listed, and warned of when one is created', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { JAVA_OPTS: '-Xmx1g', REDIS_OPTS: 'x', 'my-key': 'y' })
  const page = await openGrid(service, project, { session: owner.session })
  await page.getByText('leave out: JAVA_OPTS (Java obeys it), my-key (not the name of a variable).').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'New secret' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('REDIS_URL')
  expect(await dialog.getByText('leave this secret out').count()).toBe(0)
  await dialog.getByLabel('Name').fill('VIMINIT')
  await dialog
    .getByText('Vi obeys it: coffer run, and exports for shells and pipelines, leave this secret out.')
    .waitFor()
})
