/** Registration with an invite must not tell the holder of the link, maybe the inviter, whether an address has an account. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addUser, password, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../../test/member-workspace.ts'

let service: TestService
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  place = await createMemberWorkspace(service, await registerOwner(service))
})
afterAll(() => service.stop())

const register = (email: string, inviteToken: string, slug: string) => {
  const workspace = { name: 'Own', slug }
  return service.call('POST', '/v1/auth/register', {
    body: { email, name: 'New', password, inviteToken, workspace },
  })
}

test('a taken slug gets the same refusal, whether or not the address has an account', async () => {
  const { email: known } = await addUser(service, place.newAddress())
  const unknown = place.newAddress()
  const answers = []
  for (const email of [known, unknown]) {
    const { inviteToken } = await place.mustInvite({ email })
    answers.push(await register(email, inviteToken, 'main'))
  }
  const [first, second] = answers.map(({ status, text }) => ({ status, text }))
  expect(first?.status).toBe(409)
  expect(first).toEqual(second)
})

test('a refused registration creates neither an account nor a workspace, and leaves the invite open', async () => {
  const { email: known } = await addUser(service, place.newAddress())
  const { inviteToken } = await place.mustInvite({ email: known })
  expect(await register(known, inviteToken, 'never-made')).toMatchObject({
    status: 409,
    body: { message: 'An account with this email address already exists: sign in instead.' },
  })
  const unknown = place.newAddress()
  const issued = await place.mustInvite({ email: unknown })
  expect((await register(unknown, issued.inviteToken, 'main')).status).toBe(409)
  expect((await register(unknown, issued.inviteToken, 'never-made')).status).toBe(201)
})
