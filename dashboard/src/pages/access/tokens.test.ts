/** Tokens: the page gives exactly what was ticked, shows a value once, and offers nothing that would be refused. */
import type { Token } from '@coffer/contract/token'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../test/authenticator.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  addUser,
  createProject,
  createToken,
  password,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let shop: TestProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  shop = await createProject(service, owner.session, 'shop')
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const path = '/main/-/access/tokens'
const secrets = '/v1/workspace/main/project/shop/secret'

async function choose(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}`, exact: true }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

/** Reads the value that is shown once, closes the dialog, and looks for traces. */
async function takeValue(page: Page): Promise<string> {
  const field = page.getByLabel('Token', { exact: true })
  const value = await field.inputValue()
  expect(value).toMatch(/^cof_live_[0-9A-Za-z]{36}$/)
  await page.getByRole('button', { name: 'Done' }).click()
  await field.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(value)
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(value)
  return value
}

const read = (token: string, environment: string) =>
  service.call('GET', `${secrets}?environmentId=${environment}`, { token })

test('a token for one environment reads exactly that, and its value is shown once', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByText('No tokens yet').waitFor()
  await page.getByText('In Kubernetes').click()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByLabel('Name').fill('deploy')
  await page.getByRole('checkbox', { name: 'shop project' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Space')
  expect(await page.getByRole('checkbox', { name: 'staging environment' }).isChecked()).toBe(true)
  const isMixed = (box: { indeterminate?: boolean }) => box.indeterminate
  expect(await page.getByRole('checkbox', { name: 'shop project' }).evaluate(isMixed)).toBe(true)
  await page.getByLabel('Expires after').selectOption('never')
  await page.getByText('Prefer one that expires').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Expires after').selectOption('30d')
  await page.getByRole('button', { name: 'Create token' }).click()
  await page.getByLabel('Token', { exact: true }).waitFor()
  await expectAccessible(page)
  const first = await takeValue(page)
  expect((await read(first, 'staging')).status).toBe(200)
  expect((await read(first, 'production')).status).toBe(404)
  const body = { environments: [shop.environments[1]?.id], secrets: [{ key: 'A', value: 'b' }] }
  expect((await service.call('POST', secrets, { token: first, body })).status).toBe(403)
})

test('a rotated and a revoked value end, and the last use is named before', async () => {
  const { token: first } = await createToken(service, owner.session, { name: 'turned' })
  expect((await read(first, 'staging')).status).toBe(200)
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, 'turned', 'Rotate')
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Old value').selectOption('Ends at once')
  await page.getByRole('button', { name: 'Rotate' }).click()
  await page.getByText('The old value has ended.').waitFor()
  const second = await takeValue(page)
  expect([(await read(first, 'staging')).status, (await read(second, 'staging')).status]).toEqual([401, 200])

  await choose(page, 'turned', 'Revoke')
  expect(await page.getByRole('dialog').textContent()).toMatch(/turned.*last used .* from 127\.0\.0\.1/)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Revoke' }).click()
  await page.getByLabel(/Show revoked and expired tokens \(1\)/).check()
  expect(await page.getByRole('row', { name: 'turned' }).textContent()).toContain('revoked')
  expect(await page.getByRole('button', { name: 'Actions for turned' }).count()).toBe(0)
  expect((await read(second, 'staging')).status).toBe(401)
})

test('an admin sees everybody’s tokens, and is offered to rotate those alone that the service lets them rotate', async () => {
  const admin = await addUser(service, 'admin@example.com', { workspaceId, role: 'admin' })
  const dev = await addUser(service, 'dev@example.com', { workspaceId, role: 'developer' })
  const made = [
    await createToken(service, owner.session, { name: 'owner-writes' }),
    await createToken(service, owner.session, { name: 'owner-reads', permission: 'read' }),
    await createToken(service, dev.session, { name: 'dev-writes' }),
    await createToken(service, admin.session, { name: 'own', expiresIn: '24h' }),
  ]
  const cli = { environmentId: shop.environments[0]?.id }
  await service.call('POST', '/v1/workspace/main/tokens/cli', { token: dev.session, body: cli })
  const page = await openPage(service, { session: admin.session, path })
  await page.getByRole('row', { name: 'dev-writes' }).getByText('dev@example.com').waitFor()
  const { body: tokens } = await service.call<Token[]>('GET', '/v1/workspace/main/tokens', { token: admin.session })
  const offered: string[] = []
  const allowed: string[] = []
  for (const { id, name } of tokens.filter(({ type, id }) => type === 'cli' || made.some((one) => one.id === id))) {
    await page.getByRole('button', { name: `Actions for ${name}`, exact: true }).click()
    await page.getByRole('menuitem', { name: 'Revoke' }).waitFor()
    if ((await page.getByRole('menuitem', { name: 'Rotate' }).count()) === 1) offered.push(name)
    await page.keyboard.press('Escape')
    const options = { token: admin.session, body: {} }
    const answer = await service.call('POST', `/v1/workspace/main/tokens/${id}/rotate`, options)
    if (answer.status === 200) allowed.push(name)
    else expect(answer.status).toBe(403)
  }
  expect(allowed.toSorted()).toEqual(['dev-writes', 'own', 'owner-reads'])
  expect(offered.toSorted()).toEqual(allowed.toSorted())
  await expectAccessible(page)
})

test('a member creates read tokens within their scope, and sees their own alone', async () => {
  const [, staging] = shop.environments
  const scope = { all: false, teams: [], projects: [], environments: [staging?.id ?? ''] }
  const member = await addUser(service, 'member@example.com', { workspaceId, role: 'member', scope })
  const page = await openPage(service, { session: member.session, path })
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByRole('dialog').waitFor()
  expect(await page.getByRole('radio').count()).toBe(1)
  await page.getByLabel('Name').fill('mine')
  await page.getByRole('checkbox', { name: 'Everyone team' }).check()
  await page.getByRole('button', { name: 'Create token' }).click()
  const value = await takeValue(page)
  const me = await service.call('GET', '/v1/me', { token: value })
  expect(me.body).toMatchObject({ credential: { permission: 'read', scope } })
  expect(await page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(0)
  expect(await page.getByRole('row', { name: 'mine' }).textContent()).toContain('shop / staging')
})

test('a token that may manage access takes the password or a code, is marked, and is not offered for a transfer', async () => {
  const admin = await addUser(service, 'ops@example.com', { workspaceId, role: 'admin' })
  const app = await setUpTotp(service, admin.session)
  const page = await openPage(service, { session: admin.session, path, expectedErrors: [/403/] })
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByLabel('Name').fill('ops')
  await page.getByRole('radio', { name: /^Read and write/ }).check()
  await page.getByRole('radio', { name: /^Everything/ }).check()
  await page.getByLabel('Expires after').selectOption('24h')
  expect(await page.getByLabel('Your password').count()).toBe(0)
  await page.getByRole('checkbox', { name: /May manage access/ }).check()
  const create = page.getByRole('button', { name: 'Create token' })
  expect(await create.isDisabled()).toBe(true)
  await expectAccessible(page)
  await page.getByLabel('Your password').fill('not the password')
  await create.click()
  await page.getByText('is wrong').waitFor()
  await page.getByLabel('Or a code of your authenticator app').fill(app.recoveryCodes[0] ?? '')
  await create.click()
  const value = await takeValue(page)
  const me = await service.call('GET', '/v1/me', { token: value })
  expect(me.body).toMatchObject({ credential: { mayAdminister: true } })
  expect(await page.getByRole('row', { name: 'ops' }).textContent()).toContain('manages access')
  await page.getByRole('button', { name: 'Actions for ops', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Revoke' }).waitFor()
  expect(await page.getByRole('menuitem', { name: 'Transfer' }).count()).toBe(0)
  await page.getByRole('menuitem', { name: 'Rotate' }).click()
  await page.getByLabel('Your password').fill(password)
  await page.getByRole('button', { name: 'Rotate' }).click()
  expect(await takeValue(page)).not.toBe(value)
})

test('somebody who is no admin of the whole workspace is not offered the mark', async () => {
  const developer = await addUser(service, 'plain@example.com', { workspaceId, role: 'developer' })
  const page = await openPage(service, { session: developer.session, path })
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByLabel('Name').waitFor()
  expect(await page.getByRole('checkbox', { name: /May manage access/ }).count()).toBe(0)
})
