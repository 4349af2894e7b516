/**
 * The upgrade to several grants and service accounts: everybody keeps exactly what they had, no stored row changes, and
 * a node of the version before beside a new one refuses what it does not understand, and never reads more into it.
 */
import type { Grant, Scope } from '@coffer/contract/field'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { Member } from '@coffer/contract/member'
import type { IssuedShare } from '@coffer/contract/share'
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import {
  createOldStore,
  type OldStore,
  readAsOldNode,
  type SignedTable,
  signedTables,
  unfinishUpgrade,
  upgrade,
  writeMemberAsOldNode,
} from '../../../test/old-node.ts'
import { openRaw, type RawDatabase, type RawRow } from '../../../test/raw-database.ts'
import { newId } from '../crypto/id.ts'
import { createBearer, hashBearer, tokenPrefix } from '../crypto/token.ts'
import { everything } from '../domain/scope.ts'
import { storeOver } from './store.ts'

const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }
const [root, members] = ['/v1/workspace/main', '/v1/workspace/main/rbac']

/** The service that the rows come from, and the one that runs on the upgraded store. */
let before: TestService
let after: TestService
let old: OldStore
let raw: RawDatabase
let owner: TestUser
let workspaceId: string
let project: TestProject
let people: TestUser[]
/** Sessions, tokens and JWTs of everybody. */
let credentials: string[]
let invite: IssuedInvite
let invited: TestUser
let share: IssuedShare
const rowsThen = new Map<SignedTable, RawRow[]>()

beforeAll(async () => {
  before = await startService()
  owner = await registerOwner(before)
  project = await createProject(before, owner.session, 'api')
  const { body } = await before.call<{ id: string }>('GET', root, { token: owner.session })
  workspaceId = body.id
  const [development, staging] = project.environments.map(({ id }) => id)
  const grants: Grant[] = [
    { role: 'admin', scope: everything },
    { role: 'developer', scope: { ...nothing, projects: [project.id] } },
    { role: 'developer', scope: { ...nothing, environments: [staging ?? ''] } },
    { role: 'member', scope: { ...nothing, teams: [project.teamId] } },
    { role: 'member', scope: { ...nothing, environments: [development ?? ''] } },
  ]
  for (const id of [development, staging]) {
    const secrets = { environments: [id], secrets: [{ key: 'KEY', value: `in ${id}` }], mode: 'upsert' }
    await must(before, 'POST', `${root}/project/api/secret`, owner, secrets)
  }
  people = [owner]
  for (const [number, grant] of grants.entries()) {
    people.push(await addUser(before, `person-${number}@example.com`, { workspaceId, ...grant }))
  }
  credentials = []
  for (const [number, { session }] of people.entries()) {
    const scope = grants[number - 1]?.scope ?? everything
    const { token } = await createToken(before, session, { permission: 'read', scope, expiresIn: 'never' })
    credentials.push(session, token, await exchange(before, token))
  }
  invited = await addUser(before, 'invited@example.com')
  const asked = { email: invited.email, role: 'developer', scope: { environments: [staging] } }
  invite = await must(before, 'POST', members, owner, asked)
  share = await must(before, 'POST', `${root}/project/api/secret-share`, owner, { content: 'a text', expiresIn: 3_600 })
  old = await createOldStore(before)
})
afterAll(async () => {
  await raw?.close()
  await after?.stop()
  await old.raw.close()
  await old.database.drop()
  await before.stop()
})

async function must<Body>(
  service: TestService,
  method: string,
  path: string,
  { session }: Pick<TestUser, 'session'>,
  body?: object,
): Promise<Body> {
  const answer = await service.call<Body>(method, path, { token: session, ...(body && { body }) })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}

/** Status and values of reads and writes by every credential. */
async function whatEverybodyMay(service: TestService): Promise<string[]> {
  const results: string[] = []
  const environments = project.environments.map(({ id }) => id)
  for (const [number, token] of credentials.entries()) {
    const ask = async (method: string, path: string, body?: object) => {
      const { status, text } = await service.call(method, path, { token, ...(body && { body }) })
      const shown = environments.filter((id) => text.includes(`in ${id}`))
      results.push(`${number} ${method} ${path}: ${status} ${shown.join()}`)
    }
    await ask('GET', `${root}/project/api/secret`)
    await ask('GET', members)
    for (const id of environments) {
      const dryRun = { environments: [id], secrets: [{ key: 'NEW', value: '' }], dryRun: true }
      await ask('POST', `${root}/project/api/secret`, dryRun)
      await ask('PUT', `${root}/project/api/environment/${id}`, { hasPersonalOverrides: false })
    }
  }
  return results
}

/** Columns that migrations have added since. */
const addedColumns: Record<SignedTable, RawRow> = {
  member: { grants: null },
  invite: { grants: null, invited_by: null },
  token: { service_account_id: null, may_administer: null },
  share: { service_account_id: null },
}

test('no step of the migration changes a row, or makes the old node refuse one', async () => {
  const { keys } = before.app.services
  for (const table of signedTables) {
    rowsThen.set(table, await old.raw.query(`select * from ${table} order by id`))
    expect(await readAsOldNode(old.raw, keys, table), table).toHaveLength(rowsThen.get(table)?.length ?? 0)
  }
  expect([...rowsThen.values()].map(({ length }) => length)).toEqual([6, 1, 6, 1])
  await upgrade(old, async () => {
    for (const [table, rows] of rowsThen) {
      expect(await readAsOldNode(old.raw, keys, table), table).toHaveLength(rows.length)
    }
  })
  after = await openService(old.database.settings, old.database.dataDir)
  await unfinishUpgrade(after)
  raw = await openRaw(after)
  for (const [table, rows] of rowsThen) {
    const now = await raw.query(`select * from ${table} order by id`)
    const added = addedColumns[table]
    expect(now, table).toEqual(rows.map((row) => ({ ...row, ...added })))
  }
})

test('everybody may do exactly what they did before', async () => {
  const listed = async (service: TestService) => [
    await must<Member[]>(service, 'GET', members, owner),
    await must<Token[]>(service, 'GET', `${root}/tokens`, owner),
  ]
  const may = await whatEverybodyMay(before)
  expect(await whatEverybodyMay(after)).toEqual(may)
  expect(new Set(may.map((line) => line.match(/: (\d+)/)?.[1]))).toEqual(new Set(['200', '403', '404']))
  const volatile = ({ lastUsedAt: _at, lastUsedIp: _ip, ...row }: Member & Partial<Token>) => row
  const [was, is] = [await listed(before), await listed(after)]
  expect(is.map((list) => list.map((row) => volatile(Object(row))))).toEqual(
    was.map((list) => list.map((row) => volatile(Object(row)))),
  )
  const grants = (is[0] ?? []).map((row) => ({ id: row.id, grants: Object(row).grants }))
  const stored = [...(rowsThen.get('member') ?? []), ...(rowsThen.get('invite') ?? [])]
  for (const { id, role, scope } of stored) {
    expect(grants).toContainEqual({ id, grants: [{ role, scope: JSON.parse(String(scope)) }] })
  }
  expect((await after.call('POST', `/v1/share/${share.token}/view`, { body: {} })).body).toMatchObject({
    content: 'a text',
  })
  await must(after, 'POST', '/v1/workspace/invite/accept', invited, { token: invite.inviteToken })
  const joined = (await must<Member[]>(after, 'GET', members, owner)).find(({ user }) => user.id === invited.id)
  expect(joined?.grants).toEqual([
    { role: 'developer', scope: { ...nothing, environments: [project.environments[1]?.id] } },
  ])
})

const rowOf = async (userId: string): Promise<RawRow | undefined> => {
  const seen = await readAsOldNode(raw, after.app.services.keys, 'member')
  return seen.find((row) => row.user_id === userId)
}

test('an old node reads single grants of a new one, and refuses several', async () => {
  const person = people[5]
  if (!person) throw new Error('there are six people')
  const path = `${members}/${person.memberId}`
  const single: Grant = { role: 'developer', scope: { ...nothing, projects: [project.id] } }
  const further: Grant = { role: 'member', scope: { ...nothing, teams: [project.teamId] } }
  await must(after, 'PUT', path, owner, single)
  expect(await rowOf(person.id)).toMatchObject({ role: 'developer', scope: JSON.stringify(single.scope) })
  for (const grants of [
    [single, further],
    [further, single],
    [further, { role: 'admin', scope: everything }],
  ]) {
    await must(after, 'PUT', path, owner, { grants })
    expect(await rowOf(person.id)).toBeUndefined()
  }
  await must(after, 'PUT', path, owner, { grants: [further] })
  expect(await rowOf(person.id)).toMatchObject({ role: 'member', scope: JSON.stringify(further.scope) })

  const asInvites = () => readAsOldNode(raw, after.app.services.keys, 'invite')
  const email = 'several@example.com'
  const several = await must<IssuedInvite>(after, 'POST', members, owner, { email, grants: [further, single] })
  expect(await asInvites()).toEqual([])
  await must(after, 'PUT', `${members}/${several.id}`, owner, { grants: [further] })
  expect(await asInvites()).toMatchObject([{ email, role: 'member', scope: JSON.stringify(further.scope) }])
})

test('an old node refuses the tokens of a service account', async () => {
  const { engine, keys } = after.app.services
  const [accountId, tokenId, createdAt] = [newId(), newId(), 1]
  await engine.transaction('service', async ({ db }) => {
    const store = storeOver(db, keys)
    const grants = [{ role: 'admin', scope: everything }] as const
    await store.serviceAccounts.insert({
      ...{ id: accountId, workspaceId, name: 'deploy', grants: [...grants], createdBy: owner.id, createdAt },
    })
    const value = createBearer(tokenPrefix)
    const hashes = { hash: hashBearer(keys.keyring.active, value), hashRootId: keys.keyring.active.id }
    const previous = { previousHash: null, previousHashRootId: null, previousUntil: null, generation: 0 }
    const unused = { lastUsedAt: null, lastUsedIp: null, revokedAt: null, expiresAt: null, allowedIps: [] }
    const unmarked = { mayAdminister: false }
    await store.tokens.insert({
      ...{ ...hashes, ...previous, ...unused, ...unmarked, id: tokenId, workspaceId, createdBy: owner.id, createdAt },
      ...{ serviceAccountId: accountId, name: 'ci', type: 'static', prefix: '', permission: 'read-write' },
      scope: everything,
    })
  })
  expect(await raw.query('select id from token where id = ?', [tokenId])).toHaveLength(1)
  const seen = await readAsOldNode(raw, keys, 'token')
  expect(seen.map(({ id }) => id)).not.toContain(tokenId)
  expect(seen).toHaveLength(6)
})

test('a new node reads what an old one writes, but no further grants that the old one did not sign', async () => {
  const { keys, snapshots } = after.app.services
  const newcomer = await addUser(after, 'newcomer@example.com')
  const seen = async (session: string) => {
    snapshots.drop(workspaceId)
    return (await after.call('GET', `${root}/project`, { token: session })).status
  }
  const grant: Grant = { role: 'member', scope: { ...nothing, projects: [project.id] } }
  const fresh = { id: newId(), workspace_id: workspaceId, user_id: newcomer.id, is_owner: 0, created_at: 1 }
  expect(await seen(newcomer.session)).toBe(404)
  await writeMemberAsOldNode(raw, keys, fresh, grant)
  expect(await seen(newcomer.session)).toBe(200)
  const listed = await must<Member[]>(after, 'GET', members, owner)
  expect(listed.find(({ id }) => id === fresh.id)?.grants).toEqual([grant])

  await must(after, 'PUT', `${members}/${fresh.id}`, owner, { grants: [grant, { role: 'admin', scope: everything }] })
  expect(await seen(newcomer.session)).toBe(200)
  const [row] = await raw.query('select * from member where id = ?', [fresh.id])
  await writeMemberAsOldNode(raw, keys, row ?? {}, { role: 'developer', scope: everything })
  expect(await seen(newcomer.session)).toBe(404)
})
