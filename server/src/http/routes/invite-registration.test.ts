/** Registration with an invite. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../test/content.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../test/member-workspace.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { createBearer, invitePrefix } from '../../crypto/token.ts'

let service: TestService
let owner: TestUser
let raw: RawDatabase
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const nothingChanged = async (work: () => Promise<unknown>) => {
  const before = await readContent(service.app.services)
  await work()
  const now = await readContent(service.app.services)
  expect(describeChanges(before, now)).toEqual([])
  expect(now.trail).toBe(before.trail)
}

describe('the existence of an account', () => {
  test('does not show in the responses to the inviter', async () => {
    const known = await addUser(service, place.newAddress())
    const unknown = place.newAddress()
    const shape = async (email: string) => {
      const issued = await place.invite({ email })
      const again = await place.invite({ email })
      const row = await place.row(issued.body.id)
      const resent = await place.ask('POST', `/rbac/${issued.body.id}/resend`)
      const changed = await place.ask('PUT', `/rbac/${issued.body.id}`, { role: 'admin' })
      const removed = await place.ask('DELETE', `/rbac/${issued.body.id}`)
      const answers = [issued, again, resent, changed, removed].map(({ status, text, headers }) => ({
        status,
        text: plain(text, email, issued.body.id),
        headers: [...headers.keys()],
      }))
      return { answers, row: plain(JSON.stringify(row), email, issued.body.id) }
    }
    expect(await shape(known.email)).toEqual(await shape(unknown))
  })

  const plain = (text: string, email: string, id: string) =>
    text
      .replaceAll(email, '<email>')
      .replaceAll(id, '<id>')
      .replace(/cof_inv_\w+/g, '<token>')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')

  test('is not looked up for an invite', async () => {
    const outsider = await addUser(service, place.newAddress())
    await raw.restoring(['account'], async () => {
      // Reading this row would fail its integrity check.
      await raw.query('update account set password_hash = ? where id = ?', ['x', outsider.id])
      const { id } = await place.mustInvite({ email: outsider.email })
      expect(await place.row(id)).toMatchObject({ user: { id: '', name: '' } })
    })
  })
})

describe('registration with an invite', () => {
  test('creates the account and the membership together', async () => {
    const email = place.newAddress()
    const { id, inviteToken } = await place.mustInvite({ email, role: 'member' })
    const registered = await place.register(email.toUpperCase(), inviteToken)
    expect(registered).toMatchObject({ status: 201, body: { user: { email } } })
    const workspaces = await service.call('GET', '/v1/workspace', { token: registered.body.accessToken })
    expect(workspaces.body).toMatchObject([{ slug: place.slug, role: 'member', isOwner: false }])
    expect(await place.row(id)).toMatchObject({ status: 'account-created', user: { id: registered.body.user.id } })
    expect(await place.trail(id)).toMatchObject([
      { action: 'CREATE' },
      { action: 'ACCEPT', actor: { type: 'user', id: registered.body.user.id, name: email } },
    ])
  })

  test.each([
    ['another address', async () => [place.newAddress(), (await place.mustInvite()).inviteToken]],
    ['an unknown token', async () => [place.newAddress(), createBearer(invitePrefix)]],
    ['no token at all', async () => [place.newAddress()]],
    [
      'a revoked invite',
      async () => {
        const email = place.newAddress()
        const { id, inviteToken } = await place.mustInvite({ email })
        await place.ask('DELETE', `/rbac/${id}`)
        return [email, inviteToken]
      },
    ],
    [
      'a token replaced by a resend',
      async () => {
        const email = place.newAddress()
        const { id, inviteToken } = await place.mustInvite({ email })
        await place.ask('POST', `/rbac/${id}/resend`)
        return [email, inviteToken]
      },
    ],
  ])('is refused with %s', async (_what, prepare) => {
    const [email = '', inviteToken] = await prepare()
    await nothingChanged(async () => {
      expect((await place.register(email, inviteToken)).status).toBe(403)
    })
  })

  test('is refused for an address that has an account, and leaves the invite open', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { inviteToken } = await place.mustInvite({ email })
    await nothingChanged(async () => {
      expect((await place.register(email, inviteToken)).status).toBe(409)
    })
    expect((await place.accept(user.session, inviteToken)).status).toBe(200)
  })

  test('works with open sign-up too, and refuses an invalid invite instead of ignoring it', async () => {
    const open = await startService({ COFFER_SIGNUP: 'open' })
    const there = await createMemberWorkspace(open, await registerOwner(open))
    const { inviteToken } = await there.mustInvite({ email: 'in@example.com' })
    expect((await there.register('out@example.com', inviteToken)).status).toBe(403)
    const joined = await there.register('in@example.com', inviteToken)
    expect((await open.call('GET', there.root, { token: joined.body.accessToken })).status).toBe(200)
    expect((await there.register('out@example.com', inviteToken)).status).toBe(403)
    expect((await there.register('out@example.com')).status).toBe(201)
    await open.stop()
  })
})
