/** Each role is offered only the buttons of the grid that the service accepts. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/browser.ts'
import { cellOf, focusCell, openGrid, saveAll, typeInto } from '../../../../test/grid-page.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  await project.set('development', { ONE: 'shared' })
  await project.set('staging', { ONE: 'staged' })
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  workspaceId = body[0]?.id ?? ''
})
afterAll(() => service.stop())

test('a member reads, and is offered nothing else; where it is allowed, they set a value of their own', async () => {
  const member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
  const page = await openGrid(service, project, { session: member.session })
  await expectAccessible(page)
  for (const name of [/New secret/, 'Import', 'Edit', 'Add'])
    expect(await page.getByRole('button', { name }).count()).toBe(0)
  const cell = cellOf(page, 'ONE', 0)
  await cell.hover()
  await expect.poll(() => cell.getByRole('button').allTextContents()).toEqual(['Reveal', 'Copy', ''])
  await cell.dblclick({ position: { x: 20, y: 18 } })
  await page.keyboard.press('F2')
  await page.keyboard.press('Delete')
  await page.keyboard.press('n')
  await page.keyboard.press('Space')
  await cell.getByText('shared').waitFor()
  expect(await page.getByRole('textbox').count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Review and save' }).count()).toBe(0)

  await project.allowPersonal('development')
  await page.reload()
  await cell.click({ position: { x: 20, y: 18 } })
  await page.keyboard.press('Enter')
  await cell.getByRole('textbox').fill('my own')
  await page.keyboard.press('Enter')
  await saveAll(page)
  await page.getByText('Saved 1 change in development.').waitFor()
  await cell.getByText('your own value').waitFor({ state: 'attached' })
  const { body } = await service.call<Secret>('GET', `${project.root}/secret/ONE?environmentId=development`, {
    token: member.session,
  })
  expect(body.values.map(({ value, isPersonal }) => [value, isPersonal])).toEqual([
    ['shared', false],
    ['my own', true],
  ])
  expect(await project.state('development')).toEqual({ ONE: 'shared' })
})

test('a developer of one environment sees only that one, and renames nothing', async () => {
  const scope = { all: false, teams: [], projects: [], environments: [project.idOf('staging')] }
  const developer = await addUser(service, 'dev@example.com', { workspaceId, role: 'developer', scope })
  const page = await openGrid(service, project, { session: developer.session })
  expect(await page.getByRole('columnheader').allTextContents()).toEqual(['Name', 'staging'])
  await page.getByRole('rowheader').dblclick()
  expect(await page.getByRole('textbox').count()).toBe(0)
  await page.getByRole('button', { name: 'Actions for ONE' }).click()
  await expect.poll(() => page.getByRole('menuitem').allTextContents()).toEqual(['Copy name', 'History'])
})

test('somebody who has lost the right to write is told so at saving, and is offered no more of it', async () => {
  const late = await addUser(service, 'demoted@example.com', { workspaceId, role: 'developer' })
  const page = await openGrid(service, project, { session: late.session, expectedErrors: [/403/] })
  await typeInto(page, 'ONE', 1, 'too late')
  const changed = await service.call('PUT', `/v1/workspace/main/rbac/${late.memberId}`, {
    token: owner.session,
    body: { role: 'member' },
  })
  expect(changed.status).toBe(200)
  await saveAll(page)
  await page.getByRole('dialog').getByRole('alert').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Back' }).click()
  await page.getByRole('button', { name: /New secret/ }).waitFor({ state: 'detached' })
  expect((await project.state('staging')).ONE).toBe('staged')
})

test('access that ends meanwhile is said in a sentence', async () => {
  const late = await addUser(service, 'late@example.com', { workspaceId, role: 'developer' })
  const page = await openGrid(service, project, { session: late.session, expectedErrors: [/404/, /403/] })
  const removed = await service.call('DELETE', `/v1/workspace/main/rbac/${late.memberId}`, { token: owner.session })
  expect(removed.status).toBe(200)
  await focusCell(page, 'ONE', 1)
  await page.keyboard.press('Space')
  await page
    .getByText(/not found|no longer|There is no/i)
    .first()
    .waitFor()
  expect(await page.getByText('staged').count()).toBe(0)
})
