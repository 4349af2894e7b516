/** Removing a person shows what ends with them, and gives it to a service account before. */
import type { ServiceAccount } from '@coffer/contract/service-account'
import type { Sync } from '@coffer/contract/sync'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { githubActions } from '../../../../server/src/providers/github-actions.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, createToken } from '../../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../../test/service-account.ts'
import { pushDue, type SyncWorld, setUpSync, startSyncWorld } from '../../../../test/sync.ts'
import { fakeGitHub } from '../../../../test/vendor/fake/github-actions.ts'
import { newIdentity } from '../../../../test/world.ts'

let world: SyncWorld & { stop(): Promise<void> }

beforeAll(async () => {
  world = await startSyncWorld(githubActions, fakeGitHub())
})
afterAll(() => world.stop())

test('tokens and syncs move to a service account, and the rest ends', async () => {
  const { service, owner, project } = world
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const ann = await addUser(service, 'ann@example.com', { workspaceId: body.id, role: 'admin' })
  await project.set('development', { ALPHA: 'one' })
  const scope = { all: false, teams: [], projects: [], environments: [project.idOf('development')] }
  const kept = await createToken(service, ann.session, { name: 'kept', permission: 'read', scope })
  const lost = await createToken(service, ann.session, { name: 'lost', permission: 'read', scope })
  const content = { content: 'a text', expiresIn: 3_600 }
  await project.must('POST', '/secret-share', content, ann.session)
  const syncId = await setUpSync({ ...world, owner: ann })
  const grants = [{ role: 'member', scope }]
  const account = await service.call<ServiceAccount>('POST', '/v1/workspace/main/service-account', {
    token: owner.session,
    body: { name: 'deploy', grants },
  })
  expect(account.status, account.text).toBe(201)

  const page = await openPage(service, { session: owner.session, path: '/main/-/access/members' })
  await page.getByRole('button', { name: `Actions for ${ann.email}` }).click()
  await page.getByRole('menuitem', { name: 'Remove' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('2 tokens and 1 sync would end').waitFor()
  await dialog.getByText('1 share is deleted for good.').waitFor()
  expect(await dialog.getByRole('button', { name: 'Transfer token kept' }).isDisabled()).toBe(true)
  await dialog.getByLabel('Transfer to', { exact: true }).selectOption({ label: 'deploy' })
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Transfer token kept to deploy' }).press('Enter')
  await dialog.getByText('1 token and 1 sync would end').waitFor()
  await dialog.getByRole('button', { name: /^Transfer sync .* to deploy$/ }).click()
  await dialog.getByText('1 token would end').waitFor()
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })

  const status = async (token: string) =>
    (await service.call('GET', `${project.root}/secret?environmentId=development`, { token })).status
  expect([await status(kept.token), await status(lost.token)]).toEqual([200, 401])
  await pushDue(world)
  const sync = await service.call<Sync>('GET', `${project.root}/sync/${syncId}`, { token: owner.session })
  expect(sync.body).toMatchObject({ state: 'active' })
})

test('without a service account the page says how to get one', async () => {
  const { service, owner } = world
  const { body } = await service.call<{ id: string }>('POST', '/v1/workspace', {
    token: owner.session,
    body: { name: 'Other', slug: 'other' },
  })
  const ann = await addUser(service, 'ann@other.example.com', { workspaceId: body.id, role: 'developer' })
  await createToken(service, ann.session, { name: 'hers' }, 'other')
  const page = await openPage(service, { session: owner.session, path: '/other/-/access/members' })
  await page.getByRole('button', { name: `Actions for ${ann.email}` }).click()
  await page.getByRole('menuitem', { name: 'Remove' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('There is no other service account yet').waitFor()
  expect(await dialog.getByRole('button', { name: /Transfer/ }).count()).toBe(0)
  await expectAccessible(page)
  await dialog.getByRole('link', { name: 'Service accounts' }).click()
  await page.getByText('No service accounts yet').waitFor()
})

test('what the person made and what stays is listed, and each can be ended there', async () => {
  const { service, owner } = world
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const eve = await addUser(service, 'eve@example.com', { workspaceId: body.id, role: 'admin' })
  const robot = await createServiceAccount(service, eve.session, { name: 'robot' })
  const known = await createServiceToken(service, eve.session, robot.id, { name: 'known' })
  const identity = await service.call('POST', '/v1/workspace/main/oidc', { token: eve.session, body: newIdentity })
  expect(identity.status, identity.text).toBe(201)
  const invite = { email: 'guest@example.com', role: 'member', scope: { all: true } }
  await service.call('POST', '/v1/workspace/main/rbac', { token: eve.session, body: invite })

  const page = await openPage(service, { session: owner.session, path: '/main/-/access/members' })
  await page.getByRole('button', { name: `Actions for ${eve.email}` }).click()
  await page.getByRole('menuitem', { name: 'Remove' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 open invite of theirs ends: guest@example.com').waitFor()
  await expectAccessible(page)
  await dialog.getByRole('button', { name: `End identity ${newIdentity.name}` }).click()
  await dialog.getByRole('button', { name: 'End token known' }).click()
  await expect.poll(() => dialog.getByText('ended', { exact: true }).count()).toBe(2)
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })

  const list = async (path: string) =>
    (await service.call<{ id: string }[]>('GET', `/v1/workspace/main/${path}`, { token: owner.session })).body
  expect(await list('oidc')).toEqual([])
  expect((await list('service-account')).map(({ id }) => id)).toContain(robot.id)
  expect((await service.call('GET', '/v1/workspace/main', { token: known.token })).status).toBe(401)
})
