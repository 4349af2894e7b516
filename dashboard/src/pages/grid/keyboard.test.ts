/** The grid by keyboard alone. */
import { afterAll, beforeAll, expect, test } from 'vitest'
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
