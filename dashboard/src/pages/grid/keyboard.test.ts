/** The grid by keyboard alone. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/browser.ts'
import { cellOf, clipboardOf, focusCell, focusOf, openGrid } from '../../../../test/grid-page.ts'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

test('one tab stop leads into the grid; keys move, edit, rename, reveal, copy, undo and save', async () => {
  const project = await createSecretProject(service, owner.session)
  const values = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`KEY_${index + 10}`, `value ${index}`]))
  await project.set('development', values)
  const page = await openGrid(service, project, { session: owner.session })
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key)
  }
  const focus = (place: string) => expect.poll(() => focusOf(page)).toBe(place)

  await press('/')
  await page.keyboard.type('KEY')
  while (!(await focusOf(page)).startsWith('KEY_10')) await press('Tab')
  await press('ArrowRight', 'ArrowDown')
  await focus('KEY_11 2')
  await press('End', 'ArrowUp')
  await focus('KEY_10 4')
  await press('ArrowUp')
  await focus('Name 4')
  await press('ArrowLeft', 'ArrowLeft')
  await focus('Name 2')
  await press('Enter', 'ArrowDown', 'Escape')
  await focus('Name 2')
  await press('Control+End')
  await focus('KEY_69 4')
  await press('Control+Home')
  await focus('KEY_10 1')
  await press('PageDown')
  expect(await focusOf(page)).toMatch(/^KEY_[234]\d 1$/)
  await press('Control+Home', 'ArrowRight')

  await press('F2')
  await cellOf(page, 'KEY_10', 0).getByRole('textbox').waitFor()
  await page.keyboard.type('x')
  await press('Escape')
  await focus('KEY_10 2')
  await press('Space')
  await cellOf(page, 'KEY_10', 0).getByText('value 0').waitFor()
  await press('c')
  await page.getByText('Copied the value of KEY_10.').waitFor()
  expect(await clipboardOf(page)).toBe('value 0')
  await press('Shift+C')
  await page.getByText('Copied KEY_10.').waitFor()
  expect(await clipboardOf(page)).toBe('KEY_10')

  await press('Enter', 'Control+a')
  await page.keyboard.type('edited')
  await press('Tab')
  await focus('KEY_10 3')
  await press('Delete', 'ArrowDown', 'ArrowLeft', 'Delete')
  await page.getByText('2 changes in development').waitFor()
  await press('z')
  await page.getByText('1 change in development').waitFor()
  await press('Home', 'F2', 'Control+a')
  await page.keyboard.type('RENAMED')
  await press('Enter')
  await focus('RENAMED 1')
  await press('Control+s')
  await page.getByLabel('Message').waitFor()
  await page.keyboard.type('by keyboard')
  await press('Tab', 'Tab', 'Enter')
  await page.getByText('Saved 2 changes in development.').waitFor()
  const state = await project.state('development')
  expect(state).toMatchObject({ KEY_10: 'edited', RENAMED: 'value 1' })
  expect(state).not.toHaveProperty('KEY_11')
  const [revision] = await project.revisions('development')
  expect(revision?.message).toBe('by keyboard')
})

test('letters can be switched off', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'a' })
  const page = await openGrid(service, project, { session: owner.session })
  await page.keyboard.press('?')
  await page.getByLabel('Single-letter keys').uncheck()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await focusCell(page, 'ONE', 0)
  await page.keyboard.press('n')
  await page.keyboard.press('h')
  await page.keyboard.press('Enter')
  await cellOf(page, 'ONE', 0).getByRole('textbox').waitFor()
  expect(await page.getByRole('dialog').count()).toBe(0)
})

test('typing a reference in a cell offers names, and Escape takes back first the list, then the edit', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { HOST: 'db', URL: 'x' })
  const page = await openGrid(service, project, { session: owner.session })
  await focusCell(page, 'URL', 0)
  await page.keyboard.press('Enter')
  const text = cellOf(page, 'URL', 0).getByRole('textbox')
  await text.fill('')
  await page.keyboard.type('a ${ho')
  const offered = page.getByRole('option', { name: 'HOST' })
  await offered.waitFor()
  await expectAccessible(page)
  await page.keyboard.press('Enter')
  expect(await text.inputValue()).toBe(`a $${'{HOST}'}`)
  await page.keyboard.type(' ${ho')
  await page.keyboard.press('Escape')
  await offered.waitFor({ state: 'detached' })
  expect(await text.inputValue()).toBe(`a $${'{HOST}'} $${'{ho'}`)
  await page.keyboard.press('Escape')
  await text.waitFor({ state: 'detached' })
  expect(await page.getByText('1 change').count()).toBe(0)
})

test('Escape takes back an edit whose value is still being read', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'x' })
  const page = await openGrid(service, project, { session: owner.session })
  let answer: () => void = () => undefined
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route(/\/secret\/[^?]*\?/, async (route) => {
    await isAnswered
    await route.continue()
  })
  await focusCell(page, 'KEY', 0)
  const read = page.waitForRequest(/\/secret\/[^?]*\?/)
  await page.keyboard.press('Enter')
  await read
  await page.keyboard.press('Escape')
  answer()
  await cellOf(page, 'KEY', 0).and(page.locator(':not([aria-busy])')).waitFor()
  expect(await page.getByRole('textbox', { name: /^Value of/ }).count()).toBe(0)
  await page.keyboard.press('Enter')
  await cellOf(page, 'KEY', 0).getByRole('textbox').waitFor()
})

test('Back with a text in an editor asks before it is lost, also when it is no edit yet', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { KEY: 'x' })
  const page = await openGrid(service, project, { session: owner.session })
  const tab = (name: string) => page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name })
  await tab('History').click()
  await page.waitForURL(/history/)
  await tab('Secrets').click()
  await focusCell(page, 'KEY', 0)
  await page.keyboard.press('Enter')
  const text = cellOf(page, 'KEY', 0).getByRole('textbox')
  await text.fill('typed')
  await page.evaluate('void history.back()')
  const dialog = page.getByRole('dialog', { name: 'Leave without saving?' })
  await dialog.waitFor()
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Stay' }).click()
  expect(page.url()).not.toContain('history')
  await page.getByText('1 change in development').waitFor()
  // Closing the tab or loading it anew asks in the words of the browser.
  const asked = page.waitForEvent('dialog')
  const reloaded = page.reload()
  const question = await asked
  expect(question.type()).toBe('beforeunload')
  await question.accept()
  await reloaded
  expect(await project.state('development')).toEqual({ KEY: 'x' })
})
