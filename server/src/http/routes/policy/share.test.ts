/** What a policy allows to be shared: new shares, and those that exist already. */
import type { Share } from '@coffer/contract/share'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { TestService } from '../../../../../test/harness.ts'
import { type PolicyWorld, startPolicyWorld } from '../../../../../test/policy-world.ts'
import { expectGone, readers } from '../../../../../test/share.ts'

const dayMs = 24 * 60 * 60 * 1000
const daySeconds = dayMs / 1000
const zeros = (byteCount: number) => Buffer.alloc(byteCount).toString('base64url')
const envelope = { ciphertext: zeros(284), commit: zeros(32), linkProofHash: zeros(32) }

let world: PolicyWorld
let service: TestService

beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
})
afterAll(() => world.stop())
afterEach(() => {
  service.clock.offsetMs = 0
})

async function newSharing() {
  const workspace = await world.newWorkspace()
  const list = `${workspace.root}/project/api/secret-share`
  const make = (body: Record<string, unknown>, token = workspace.owner.session) =>
    service.call<{ token: string; message: string }>('POST', list, { token, body: { expiresIn: 3_600, ...body } })
  const sharing = (rules: Partial<{ enabled: boolean; maxDays: number; endToEndOnly: boolean }>) => ({
    sharing: { enabled: true, maxDays: 30, endToEndOnly: false, ...rules },
  })
  const shares = async (token = workspace.owner.session) => (await service.call<Share[]>('GET', list, { token })).body
  return { ...workspace, ...readers(service), make, sharing, shares }
}

test('without sharing nobody creates a share, and existing ones open again only with it', async () => {
  const { make, meta, view, set, sharing, join } = await newSharing()
  const made = await make({ content: 'shared', maxViews: 5 })
  const sealed = await make({ envelope })
  await set(sharing({ enabled: false }))
  for (const body of [{ content: 'shared' }, { envelope }]) {
    const refused = await make(body)
    expect([refused.status, refused.body.message]).toEqual([403, 'Sharing is switched off in this workspace.'])
  }
  expect((await make({ content: 'shared' }, (await join()).session)).status).toBe(403)
  expectGone(await meta(made.body.token))
  expectGone(await view(made.body.token))
  expectGone(await meta(sealed.body.token))
  await set({})
  expect((await view(made.body.token)).body).toMatchObject({ content: 'shared', viewsLeft: 4 })
})

test('with end-to-end shares only, the service takes and opens no content that it could read', async () => {
  const { make, meta, view, set, sharing } = await newSharing()
  const made = await make({ content: 'shared', maxViews: 5 })
  const sealed = await make({ envelope })
  await set(sharing({ endToEndOnly: true }))
  const refused = await make({ content: 'shared' })
  expect([refused.status, refused.body.message]).toEqual([
    403,
    'This workspace allows only end-to-end encrypted shares: send an envelope.',
  ])
  expectGone(await meta(made.body.token))
  expectGone(await view(made.body.token))
  expect((await meta(sealed.body.token)).status).toBe(200)
  expect((await make({ envelope })).status).toBe(201)
})

test('a share ends after the days that the policy allows, also one from before', async () => {
  const { make, meta, view, set, sharing, shares, owner } = await newSharing()
  const made = await make({ content: 'shared', expiresIn: 30 * daySeconds, maxViews: 5 })
  await set(sharing({ maxDays: 2 }))
  const refused = await make({ content: 'shared', expiresIn: 2 * daySeconds + 1 })
  expect([refused.status, refused.body.message]).toEqual([
    403,
    'expiresIn: shares of this workspace are valid for 2 days at most: choose a shorter time.',
  ])
  expect((await make({ content: 'shared', expiresIn: 2 * daySeconds })).status).toBe(201)
  const [, listed] = await shares()
  const end = Date.parse(listed?.createdAt ?? '') + 2 * dayMs
  expect(listed).toMatchObject({ state: 'active', expiresAt: new Date(end).toISOString() })
  expect((await meta(made.body.token)).body.expiresAt).toBe(new Date(end).toISOString())
  expect((await view(made.body.token)).status).toBe(200)
  service.clock.offsetMs = 2 * dayMs
  expectGone(await meta(made.body.token))
  expectGone(await view(made.body.token))
  const session = await world.logIn(owner)
  expect((await shares(session)).map(({ state }) => state)).toEqual(['expired', 'expired'])
  // Its own end has not come yet.
  await set({}, session)
  expect((await view(made.body.token)).status).toBe(200)
})

test('a person who does not meet the policy creates no share', async () => {
  const { make, set, join } = await newSharing()
  const person = await join()
  await set({ requireMfa: true })
  expect((await make({ content: 'shared' }, person.session)).status).toBe(403)
})
