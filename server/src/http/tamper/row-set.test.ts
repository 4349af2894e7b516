/** Rows that were removed, or put back with a valid MAC of their own: a workspace closes, tokens and identities are reported. */
import { openPolicy } from '@coffer/contract/policy'
import type { ServiceAccount } from '@coffer/contract/service-account'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createToken, type TestService, type TestUser } from '../../../../test/harness.ts'
import { flip, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { rotate } from '../../../../test/rotation.ts'
import { createTamperedWorkspaces, unknownRoot } from '../../../../test/tampered-workspace.ts'
import { asOperator } from '../../domain/context.ts'
import { acceptRows, findBrokenSets } from '../../domain/workspace/row-set.ts'
import { createIntegrityJob } from '../../jobs/integrity.ts'

const { start, stop, invalidateAll, one } = createTamperedWorkspaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let mallory: TestUser
let stranger: TestUser
let mainId: string
/** Rows as they were, with valid MACs. */
const past = new Map<string, RawRow>()

const root = '/v1/workspace/main'
const grant = (role: string) => ({ grants: [{ role, scope: { all: true } }] })
const tables = ['member', 'service_account', 'workspace_policy', 'token', 'oidc_identity', 'row_set', 'lease']
const closed = /^Members, service accounts or the policy of this workspace were changed in the database/

async function must<Body>(method: string, path: string, body?: object): Promise<Body> {
  const answer = await service.call<Body>(method, path, { token: owner.session, ...(body && { body }) })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}

beforeAll(async () => {
  ;({ service, raw, owner, mallory, stranger, mainId } = await start())
  const note = async (name: string, table: string, id: unknown) => {
    past.set(name, await one(`select * from ${table} where id = ?`, [String(id)]))
  }
  const { id: memberId } = await one('select id from member where user_id = ?', [mallory.id])
  await must('PUT', `${root}/rbac/${memberId}`, grant('admin'))
  await note('admin', 'member', memberId)
  await must('PUT', `${root}/rbac/${memberId}`, grant('member'))

  await must('PUT', `${root}/policy`, openPolicy)
  past.set('open policy', await one('select * from workspace_policy where workspace_id = ?', [mainId]))
  await must('PUT', `${root}/policy`, { ...openPolicy, maxTokenDays: 30 })

  const account = await must<ServiceAccount>('POST', `${root}/service-account`, { name: 'deploy', ...grant('admin') })
  await note('service admin', 'service_account', account.id)
  await must('PUT', `${root}/service-account/${account.id}`, grant('member'))
  const gone = await must<ServiceAccount>('POST', `${root}/service-account`, { name: 'gone', ...grant('admin') })
  await note('removed service account', 'service_account', gone.id)
  await must('DELETE', `${root}/service-account/${gone.id}`)

  const token = await createToken(service, owner.session)
  await note('token', 'token', token.id)
  await must('DELETE', `${root}/tokens/${token.id}`)
  await createToken(service, owner.session, { name: 'other' })

  const identity = { name: 'ci', issuer: 'https://issuer.example.com', audience: 'coffer', subject: 'repo:main' }
  const rights = { permission: 'read', scope: { all: true }, claims: {} }
  const { id } = await must<{ id: string }>('POST', `${root}/oidc`, { ...identity, ...rights })
  await note('identity', 'oidc_identity', id)
  await must('PUT', `${root}/oidc/${id}`, { enabled: false })
})
afterAll(stop)
beforeEach(invalidateAll)

const broken = async () => {
  const found: string[] = []
  for await (const { slug, what } of findBrokenSets(service.app.services.store)) found.push(`${slug}: ${what}`)
  return found
}
const enter = (user: TestUser, slug = 'main') =>
  service.call<{ message?: string }>('GET', `/v1/workspace/${slug}/team`, { token: user.session })

async function putBack(table: string, name: string): Promise<void> {
  const row = past.get(name) ?? {}
  const key = table === 'workspace_policy' ? 'workspace_id' : 'id'
  await raw.query(`delete from ${table} where ${key} = ?`, [row[key] ?? null])
  const columns = Object.keys(row)
  await raw.query(`insert into ${table} (${columns}) values (${columns.map(() => '?')})`, Object.values(row))
}

const accessOf = 'main: members, service accounts or policy'
const remove = (table: string, where: string) => () => raw.query(`delete from ${table} where ${where}`)
const sealedOf = (slug: string, kind: string) =>
  one(`select s.sealed from row_set s join workspace w on w.id = s.workspace_id where w.slug = ? and kind = ?`, [
    slug,
    kind,
  ])
const setSealed = (sealed: unknown) =>
  raw.query(`update row_set set sealed = ? where workspace_id = ? and kind = 'access'`, [sealed as Buffer, mainId])

test('nothing that Coffer itself does breaks a set', async () => {
  expect(await broken()).toEqual([])
  expect((await enter(mallory)).status).toBe(200)
})

test.each<[what: string, tamper: () => Promise<unknown>]>([
  ['a policy that is removed', () => raw.query('delete from workspace_policy where workspace_id = ?', [mainId])],
  ['an earlier policy', () => putBack('workspace_policy', 'open policy')],
  ['an earlier grant of a member', () => putBack('member', 'admin')],
  ['an earlier grant of a service account', () => putBack('service_account', 'service admin')],
  ['a service account that was removed', () => putBack('service_account', 'removed service account')],
  ['a member that is removed', () => raw.query('delete from member where user_id = ?', [mallory.id])],
  ['all service accounts that are removed', remove('service_account', '1 = 1')],
  [
    'two members who swap their MACs',
    async () => {
      const macOf = (id: string) => one('select mac from member where user_id = ? and workspace_id = ?', [id, mainId])
      const [first, second] = [await macOf(owner.id), await macOf(mallory.id)]
      const give = (id: string, { mac = null }: RawRow) =>
        raw.query('update member set mac = ? where user_id = ? and workspace_id = ?', [mac, id, mainId])
      await give(owner.id, second)
      await give(mallory.id, first)
    },
  ],
  ['a set that is removed', () => raw.query('delete from row_set where workspace_id = ?', [mainId])],
  ['a flipped bit of the set', async () => setSealed(flip((await sealedOf('main', 'access')).sealed, 20))],
  ['an empty set', () => setSealed(Buffer.alloc(0))],
  ['the set of another workspace', async () => setSealed((await sealedOf('strange', 'access')).sealed)],
  ['another set of the workspace', async () => setSealed((await sealedOf('main', 'token')).sealed)],
  [
    'a set of an unknown root',
    () => raw.query('update row_set set root_id = ? where workspace_id = ?', [unknownRoot, mainId]),
  ],
])('%s closes the workspace for everybody, and is logged and found', async (_what, tamper) => {
  await raw.restoring(tables, async () => {
    await tamper()
    invalidateAll()
    service.logs.length = 0
    const answer = await enter(owner)
    // The MACs of swapped rows are wrong as well, so that the members themselves are gone.
    expect([404, 503]).toContain(answer.status)
    if (answer.status === 503) expect(answer.body.message).toMatch(closed)
    expect((await enter(mallory)).status).toBeGreaterThan(403)
    expect(service.logs.join()).toContain('were removed or put back: the workspace is closed')
    expect(await broken()).toContain(accessOf)
    expect((await enter(stranger, 'strange')).status).toBe(200)
  })
  invalidateAll()
  expect((await enter(owner)).status).toBe(200)
  expect(await broken()).toEqual([])
})

test.each<[what: string, tamper: () => Promise<unknown>, found: string]>([
  ['a token that was revoked', () => putBack('token', 'token'), 'main: tokens'],
  ['a token that is removed', remove('token', `name = 'other'`), 'main: tokens'],
  ['an identity that was switched off', () => putBack('oidc_identity', 'identity'), 'main: identities'],
  ['identities that are removed', remove('oidc_identity', '1 = 1'), 'main: identities'],
])('%s is found by the nightly check, and the workspace stays open', async (_what, tamper, found) => {
  await raw.restoring(tables, async () => {
    await tamper()
    invalidateAll()
    expect(await broken()).toEqual([found])
    const job = createIntegrityJob()
    service.logs.length = 0
    await job(service.app.services)
    await job(service.app.services)
    const told = () => service.logs.filter((line) => line.includes('rows were removed or put back in the database'))
    expect(told()).toHaveLength(1)
    expect(told()[0]).toContain(mainId)
    service.clock.offsetMs += 24 * 60 * 60 * 1_000
    await job(service.app.services)
    expect(told()).toHaveLength(2)
    // Another node of the same store leaves the night to the first.
    const other = createIntegrityJob()
    service.clock.offsetMs = 0
    await other(service.app.services)
    expect(told()).toHaveLength(3)
    service.clock.offsetMs += 24 * 60 * 60 * 1_000
    await other(service.app.services)
    expect(told()).toHaveLength(3)
    service.clock.offsetMs = 0
    expect((await enter(owner)).status).toBe(200)
  })
})

test('later changes by Coffer, and a rotation of the root keys, do not confirm what was put back', async () => {
  await raw.restoring(tables, async () => {
    await putBack('token', 'token')
    await createToken(service, owner.session, { name: 'later' })
    expect(await broken()).toEqual(['main: tokens'])
    await putBack('member', 'admin')
    await rotate(service)
    invalidateAll()
    expect(await broken()).toEqual([accessOf, 'main: tokens'])
    expect((await enter(mallory)).status).toBe(503)
    const old = await raw.query('select 1 from row_set s join root_key r on r.id = s.root_id where r.is_active = 0')
    expect(old).toEqual([])

    const ctx = asOperator(service.app.services)
    expect(await acceptRows(ctx, 'main')).toMatchObject({ access: 4 })
    expect(await broken()).toEqual([])
    expect((await enter(mallory)).status).toBe(200)
    const [entry] = await must<{ entity: object }[]>('GET', `${root}/audit?limit=1`)
    expect(entry?.entity).toMatchObject({ type: 'row-set', id: mainId })
    await expect(acceptRows(ctx, 'nowhere')).rejects.toThrow('There is no workspace "nowhere".')
  })
})
