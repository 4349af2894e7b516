/** `workspace transfer`, run as an operator runs it, while the service runs. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { until } from '../../../test/wait.ts'
import { systemChain } from '../domain/audit/event.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  workspaceId = body[0]?.id ?? ''
})
afterAll(() => service.stop())

const transfer = (...args: string[]) => runHere(['workspace', 'transfer', ...args], service.settings)

type Row = { role: string; isOwner: boolean }
const mine = async ({ session }: TestUser) =>
  (await service.call<Row[]>('GET', '/v1/workspace', { token: session })).body[0]
const becomesOwner = (user: TestUser) =>
  until(async () => ((await mine(user))?.isOwner ? true : undefined), 120_000, 'the service knows the new owner')

test('a member becomes admin and owner, and the former owner stays an admin', async () => {
  const heir = await addUser(service, 'heir@example.com', { workspaceId, role: 'member' })
  expect(await transfer('main', 'HEIR@example.com')).toEqual({
    code: 0,
    out: 'heir@example.com owns the workspace main now. Its former owner stays an admin of it.\n',
    err: '',
  })
  await becomesOwner(heir)
  expect(await mine(heir)).toMatchObject({ role: 'admin', isOwner: true })
  expect(await mine(owner)).toMatchObject({ role: 'admin', isOwner: false })
  const policy = `/v1/workspace/main/policy`
  expect((await service.call('GET', policy, { token: heir.session })).status).toBe(200)
})

test('a person who is no member joins, and both trails say who did it', async () => {
  const stranger = await addUser(service, 'stranger@example.com')
  expect((await transfer(workspaceId, stranger.email)).code).toBe(0)
  await becomesOwner(stranger)
  const raw = await openRaw(service)
  const rows = await raw.query(
    `select chain_id, action, entity_type from audit_entry
     where actor_type = 'operator' and sequence > 0 and entity_type = 'workspace' order by chain_id, sequence`,
  )
  await raw.close()
  const event = { action: 'UPDATE', entity_type: 'workspace' }
  const both = [systemChain, workspaceId].sort()
  expect(rows).toEqual(
    both.flatMap((chain_id) => [
      { chain_id, ...event },
      { chain_id, ...event },
    ]),
  )
})

test('the owner, an unknown person, an unknown workspace and a changed row are refused', async () => {
  const { email } = await addUser(service, 'late@example.com')
  expect(await transfer('main', 'stranger@example.com')).toMatchObject({
    code: 1,
    err: 'This person owns the workspace already: nothing was changed.\n',
  })
  expect(await transfer('main', 'nobody@example.com')).toMatchObject({ code: 1 })
  expect(await transfer('absent', email)).toMatchObject({ code: 1, err: 'There is no workspace "absent".\n' })
  expect(await transfer('main')).toMatchObject({ code: 2 })
  const raw = await openRaw(service)
  await raw.restoring(['member'], async () => {
    await raw.query(`update member set role = 'member' where is_owner = 1`)
    expect(await transfer('main', email)).toMatchObject({
      code: 1,
      err: 'Memberships of this workspace were changed outside of Coffer: run doctor.\n',
    })
  })
  await raw.close()
})
