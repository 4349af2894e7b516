/** Setting up a sync from its tile to its first push, and what the page says when a sync needs a person. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { githubActions } from '../../../../server/src/providers/github-actions.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, password } from '../../../../test/harness.ts'
import { pushDue, resetSyncs, type SyncWorld, setUpSync, startSyncWorld } from '../../../../test/sync.ts'
import { walkToReview } from '../../../../test/sync-wizard.ts'
import { fakeGitHub } from '../../../../test/vendor/fake/github-actions.ts'

let world: SyncWorld & { stop(): Promise<void> }

beforeAll(async () => {
  world = await startSyncWorld(githubActions, fakeGitHub())
})
afterAll(() => world.stop())
beforeEach(() => resetSyncs(world))

const open = (path: string) =>
  openPage(world.service, { session: world.owner.session, path: `/main/${world.project.slug}${path}` })

test('a person sets up a sync, sees its plan, starts it and looks at its first push', async () => {
  const page = await open('/syncs')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'GitHub Actions' }).click()
  const { credential, target, options } = world.fake
  await walkToReview(page, {
    auth: credential,
    target,
    mapping: { ...options, environment: world.project.idOf('development') },
  })
  await page.getByText('3 created').waitFor()
  expect(await page.getByText('ALPHA, BETA, GAMMA').count()).toBe(1)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Start' }).click()
  await page.getByText('first push is due').waitFor()
  await pushDue(world)
  await page.getByText('up to date').waitFor()
  expect([...world.fake.state().keys()].sort()).toEqual(['ALPHA', 'BETA', 'GAMMA'])
  await page.getByRole('button', { name: /^Details of/ }).click()
  await page.getByRole('dialog').getByText('ALPHA').waitFor()
  await expectAccessible(page)
  const html = await page.content()
  for (const value of Object.values(credential)) expect(html).not.toContain(value)
})

test('a refused answer is explained at its field, and typed credentials are not kept', async () => {
  const page = await openPage(world.service, {
    session: world.owner.session,
    path: `/main/${world.project.slug}/syncs`,
    expectedErrors: [/400/],
  })
  await page.getByRole('button', { name: 'GitHub Actions' }).click()
  const token = page.locator('[name="token"]')
  await token.fill('github_pat_canary_wrong')
  await page.locator('form').getByRole('button', { name: 'Continue' }).click()
  await page.locator('form .error').waitFor()
  expect(await token.getAttribute('aria-invalid')).toBe('true')
  const stored = await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage }) + location.href')
  expect(stored).not.toContain('canary')
})

test('a typed credential survives a new sign-in', async () => {
  const body = { email: world.owner.email, password }
  const { accessToken } = (await world.service.call<{ accessToken: string }>('POST', '/v1/auth/login', { body })).body
  const path = `/main/${world.project.slug}/syncs`
  const page = await openPage(world.service, { session: accessToken, path, expectedErrors: [/401/] })
  await page.getByRole('button', { name: 'GitHub Actions' }).click()
  const token = page.locator('[name="token"]')
  await token.fill('typed before')
  await world.service.call('POST', '/v1/auth/logout', { token: accessToken })
  await page.locator('form').getByRole('button', { name: 'Continue' }).click()
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.getByLabel('Password').fill(password)
  const read = page.waitForResponse((response) => response.url().includes('/flow'))
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await read
  await dialog.waitFor({ state: 'detached' })
  expect(await token.inputValue()).toBe('typed before')
})

test('a blocked sync names its reason and is resumed by one click', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  for (const key of ['ALPHA', 'BETA', 'GAMMA']) await world.project.must('DELETE', `/secret/${key}`)
  await pushDue(world, 60_000)
  const page = await open(`/syncs/${id}`)
  await page.getByText('needs you').waitFor()
  await page.getByRole('button', { name: 'Show the plan' }).click()
  await page.getByText('3 deleted').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('needs you').waitFor({ state: 'detached' })
  await pushDue(world)
  expect(world.fake.state().size).toBe(0)
})

test('a sync is paused, resumed and deleted', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  const page = await open(`/syncs/${id}`)
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByRole('button', { name: 'Push now' }).waitFor()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await expectAccessible(page)
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Delete / })
    .click()
  await page.waitForURL(/\/syncs$/)
  expect(await world.project.must('GET', '/sync')).toEqual([])
  expect(world.fake.state().size).toBe(3)
})

test('a developer is offered no syncs', async () => {
  const { service, project, owner } = world
  const [workspace] = (await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })).body
  const developer = await addUser(service, 'dev@example.com', { workspaceId: workspace?.id ?? '', role: 'developer' })
  const page = await openPage(service, { session: developer.session, path: `/main/${project.slug}/syncs` })
  await page.getByText('Syncs are for admins').waitFor()
  await page.goto(`/main/${project.slug}/compare`)
  await page.getByRole('link', { name: 'Compare' }).waitFor()
  expect(await page.getByRole('link', { name: 'Syncs' }).count()).toBe(0)
})
