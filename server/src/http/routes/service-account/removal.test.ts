/** A removal names what ends before it ends it: of a member, and of a service account. */
import type { Removal } from '@coffer/contract/member'
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { createShareProject, type ShareProject } from '../../../../../test/share.ts'

const main = '/v1/workspace/main'

let service: TestService
let raw: RawDatabase
let owner: TestUser
let workspaceId: string
let project: ShareProject
let made = 0

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
  workspaceId = (await service.call<{ id: string }>('GET', main, { token: owner.session })).body.id
  await project.set('development', { KEY: 'shared' })
  await project.allowPersonal('development')
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const ask = <Body = { message: string }>(method: string, path: string, body?: unknown, token = owner.session) =>
  service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const remove = (path: string, query = '') => ask<Removal & { message: string }>('DELETE', `${main}/${path}${query}`)
const statusOf = async (token: string) => (await ask('GET', main, undefined, token)).status
const tables = ['token', 'share', 'secret_value', 'member', 'service_account', 'audit_entry', 'change']
const contents = () => Promise.all(tables.map((table) => raw.query(`select count(*) as count from ${table}`)))

const nothingStays = { serviceAccounts: [], tokens: [], identities: [], syncs: [], shares: [] }

describe('of a member', () => {
  async function addBusy() {
    const user = await addUser(service, `busy-${++made}@example.com`, { workspaceId, role: 'admin' })
    const deploys = await createToken(service, user.session, { name: 'deploys', expiresIn: 'never' })
    const revoked = await createToken(service, user.session, { name: 'revoked' })
    await ask('DELETE', `${main}/tokens/${revoked.id}`)
    const share = await project.make({ content: 'x' }, user.session)
    const own = { environmentId: project.idOf('development'), value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/KEY/value', own, user.session)
    return { user, deploys, share }
  }

  test('the dry run names living tokens and counts shares and personal values, and changes nothing', async () => {
    const { user, deploys, share } = await addBusy()
    await statusOf(deploys.token)
    const before = await contents()
    const { status, body } = await remove(`rbac/${user.memberId}`, '?dryRun=true')
    expect(status).toBe(200)
    expect(body).toEqual({
      success: true,
      tokens: [
        {
          id: deploys.id,
          name: 'deploys',
          permission: 'read-write',
          scope: { all: true, teams: [], projects: [], environments: [] },
          mayAdminister: false,
          expiresAt: null,
          lastUsedAt: expect.stringMatching(/^\d{4}-/),
        },
      ],
      syncs: [],
      shares: 1,
      invites: [],
      personalValues: 1,
      stays: nothingStays,
    })
    expect(await contents()).toEqual(before)
    expect(await statusOf(deploys.token)).toBe(200)
    expect((await project.view(share.token)).status).toBe(200)
    await remove(`rbac/${user.memberId}`)
  })

  test('the removal itself answers the same, and ends it all', async () => {
    const { user, deploys, share } = await addBusy()
    const jwt = await exchange(service, deploys.token)
    const planned = await remove(`rbac/${user.memberId}`, '?dryRun=true')
    const done = await remove(`rbac/${user.memberId}`)
    expect(done.body).toEqual(planned.body)
    expect(done.body.tokens).toHaveLength(1)
    for (const token of [deploys.token, jwt]) expect(await statusOf(token)).toBe(401)
    expect((await project.view(share.token)).status).toBe(404)
    expect((await remove(`rbac/${user.memberId}`, '?dryRun=true')).status).toBe(404)
  })

  test('of the owner is refused in a dry run too; an invite ends nothing', async () => {
    const { body: rows } = await ask<{ id: string; isOwner: boolean }[]>('GET', `${main}/rbac`)
    const ownersRow = rows.find(({ isOwner }) => isOwner)?.id
    expect((await remove(`rbac/${ownersRow}`, '?dryRun=true')).status).toBe(409)
    const invite = { email: `invited-${++made}@example.com`, role: 'member', scope: { all: true } }
    const { body: invited } = await ask<{ id: string }>('POST', `${main}/rbac`, invite)
    const nothing = { success: true, tokens: [], syncs: [], shares: 0, invites: [], personalValues: 0 }
    for (const query of ['?dryRun=true', '']) {
      expect((await remove(`rbac/${invited.id}`, query)).body).toEqual({ ...nothing, stays: nothingStays })
    }
    expect((await remove(`rbac/${invited.id}`)).status).toBe(404)
  })

  test('tokens that were transferred before are not among what ends', async () => {
    const { user, deploys } = await addBusy()
    const account = await createServiceAccount(service, owner.session, {
      name: `keeper ${++made}`,
      grants: [{ role: 'admin', scope: { all: true } }],
    })
    const jwt = await exchange(service, deploys.token)
    const path = `${main}/tokens/${deploys.id}/transfer`
    const transferred = await ask<Token>('POST', path, { serviceAccountId: account.id })
    expect(transferred.status).toBe(200)
    expect((await remove(`rbac/${user.memberId}`)).body.tokens).toEqual([])
    for (const token of [deploys.token, jwt]) expect(await statusOf(token)).toBe(200)
    expect((await remove(`service-account/${account.id}`)).body.tokens).toMatchObject([{ id: deploys.id }])
    for (const token of [deploys.token, jwt]) expect(await statusOf(token)).toBe(401)
  })
})

describe('of a service account', () => {
  test('a dry run changes nothing; the removal ends its tokens, JWTs and shares', async () => {
    const account = await createServiceAccount(service, owner.session, { name: `account ${++made}` })
    const issued = await createServiceToken(service, owner.session, account.id, { name: 'ci' })
    const jwt = await exchange(service, issued.token)
    const share = await project.make({ content: 'x', maxViews: 5 }, jwt)
    const before = await contents()
    const planned = await remove(`service-account/${account.id}`, '?dryRun=true')
    expect(planned.body).toMatchObject({ tokens: [{ id: issued.id, name: 'ci' }], shares: 1, personalValues: 0 })
    expect(await contents()).toEqual(before)
    for (const token of [issued.token, jwt]) expect(await statusOf(token)).toBe(200)
    expect((await project.view(share.token)).status).toBe(200)
    const last = await remove(`service-account/${account.id}`, '?dryRun=true')
    expect((await remove(`service-account/${account.id}`)).body).toEqual(last.body)
    for (const token of [issued.token, jwt]) expect(await statusOf(token)).toBe(401)
    expect((await project.view(share.token)).status).toBe(404)
    expect(await raw.query('select id from token where service_account_id = ?', [account.id])).toEqual([])
    expect(await raw.query('select id from share where service_account_id = ?', [account.id])).toEqual([])
    expect((await remove(`service-account/${account.id}`)).status).toBe(404)
    expect((await ask('GET', `${main}/tokens?limit=200`)).text).not.toContain(issued.id)
  })

  test('leaves the tokens and shares of the admin who created them', async () => {
    const account = await createServiceAccount(service, owner.session, { name: `account ${++made}` })
    await createServiceToken(service, owner.session, account.id)
    const mine = await createToken(service, owner.session)
    const share = await project.make({ content: 'mine', maxViews: 5 })
    await remove(`service-account/${account.id}`)
    expect(await statusOf(mine.token)).toBe(200)
    expect((await project.view(share.token)).status).toBe(200)
  })
})
