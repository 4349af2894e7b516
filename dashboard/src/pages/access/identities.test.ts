/** Identities: from a template to a token of a real issuer that is accepted, and one that is refused with its reason. */
import type { Identity } from '@coffer/contract/oidc'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import {
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import {
  createIdentity,
  loopbackAllowed,
  startIssuer,
  type TestIssuer,
  tryFederation,
} from '../../../../test/issuer.ts'

let service: TestService
let owner: TestUser
let issuer: TestIssuer

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'shop')
  issuer = await startIssuer()
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})

const list = async () =>
  (await service.call<Identity[]>('GET', '/v1/workspace/main/oidc', { token: owner.session })).body

const path = '/main/-/access/identities'
const claims = { repository_id: '456', ref: ['refs/heads/main', 'refs/tags/v*'] }

async function choose(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}`, exact: true }).click()
  await page.getByRole('menuitem', { name: action }).click()
}

test('rules that the service refuses are named at their field', async () => {
  const options = { session: owner.session, path, expectedErrors: [/400/] }
  const page = await openPage(service, options)
  await page.getByRole('button', { name: /^Any OpenID Connect issuer/ }).click()
  await page.getByLabel('Issuer').fill('https://issuer.example.com')
  await page.getByLabel('Subject (optional)').fill('*')
  await page.getByRole('radio', { name: 'Everything' }).check()
  await page.getByRole('button', { name: 'Create identity' }).click()
  await page.getByText(/make one of the rules more specific/).waitFor()
  expect(await page.getByLabel('Subject (optional)').getAttribute('aria-invalid')).toBe('true')
})

test('an identity begins with a template, and its rules are those of the form', async () => {
  const page = await openPage(service, { session: owner.session, path })
  await page.getByRole('button', { name: /^GitHub Actions Matches the ids/ }).waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: /^GitHub Actions Matches the ids/ }).click()
  await page.getByText('Still to replace: REPOSITORY_ID, OWNER_ID.').waitFor()
  const create = page.getByRole('button', { name: 'Create identity' })
  await page.getByLabel('Name', { exact: true }).fill('deploy shop')
  await page.getByLabel('Issuer').fill(issuer.url)
  await page.getByLabel('Audience').fill('coffer')
  await page.getByLabel('Value of repository_id', { exact: true }).fill('456')
  await page.getByRole('button', { name: 'Remove repository_owner_id' }).click()
  await page.getByRole('button', { name: 'or another value of ref' }).click()
  await page.getByLabel('Value 2 of ref', { exact: true }).fill('refs/tags/v*')
  await page.getByRole('checkbox', { name: 'shop project' }).check()
  await expectAccessible(page)
  await create.click()
  await page.getByRole('dialog', { name: 'Use deploy shop' }).waitFor()
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  const made = (await list()).find(({ name }) => name === 'deploy shop')
  expect(made).toMatchObject({ claims, subject: null, permission: 'read' })
})

test('a token of the issuer is tested rule by rule, and not kept', async () => {
  await createIdentity(service, owner.session, { name: 'tested', issuer: issuer.url, claims })
  const page = await openPage(service, { session: owner.session, path })
  const good = await issuer.sign({ repository_id: '456', ref: 'refs/tags/v1' })
  const bad = await issuer.sign({ repository_id: '456', ref: 'refs/heads/other' })
  await choose(page, 'tested', 'Test a token')
  const field = page.getByLabel('Token of the issuer')
  await field.fill(good)
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText('This token would be accepted.').waitFor()
  await field.fill(bad)
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText('This token would be refused: 1 check failed.').waitFor()
  expect(await page.getByRole('row', { name: 'failed' }).textContent()).toBe(
    'failedclaims.refrefs/heads/main or refs/tags/v*refs/heads/other',
  )
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Close', exact: true }).last().click()
  await field.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(bad)
  expect([(await tryFederation(service, good)).status, (await tryFederation(service, bad)).status]).toEqual([200, 401])
})

test('a disabled identity is refused, an edited one follows its new rules, a deleted one is gone', async () => {
  const subject = 'repo:shop'
  const { id } = await createIdentity(service, owner.session, { name: 'changed', issuer: issuer.url, subject })
  const token = await issuer.sign({ sub: subject, aud: 'elsewhere' })
  const find = async () => (await list()).find((identity) => identity.id === id)
  const page = await openPage(service, { session: owner.session, path })
  await choose(page, 'changed', 'Disable')
  await page.getByText('disabled', { exact: true }).waitFor()
  expect(await find()).toMatchObject({ enabled: false })
  await choose(page, 'changed', 'Edit')
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByLabel('Audience').fill('elsewhere')
  await page.getByLabel('Enabled').check()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await find()).toMatchObject({ audience: 'elsewhere', subject, claims: {}, enabled: true })
  expect((await tryFederation(service, token)).status).toBe(200)
  await choose(page, 'changed', 'Delete')
  await page.getByRole('dialog').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('row', { name: 'changed' }).waitFor({ state: 'detached' })
  expect(await find()).toBeUndefined()
  expect((await tryFederation(service, token)).status).toBe(401)
})
