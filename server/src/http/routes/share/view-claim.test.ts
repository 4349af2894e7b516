/** Claims: a reader whose response got lost reads again. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createShareProject, expectGone, newClaim, type ShareProject } from '../../../../../test/share.ts'
import { endShares } from '../../../jobs/share.ts'

let service: TestService
let owner: TestUser
let project: ShareProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
})
afterAll(() => service.stop())
afterEach(() => {
  service.clock.offsetMs = 0
})
const proof = () => randomBytes(32).toString('base64url')
const wait = (ms: number) => {
  service.clock.offsetMs += ms
}
const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

describe('a claim', () => {
  // A frozen clock: only the tests move the time.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())

  test('lets the same reader fetch again for a minute, and nobody else', async () => {
    const { id, token } = await project.make({ content: 'once' })
    const claim = newClaim()
    const first = await project.view(token, { claim })
    expect(first.body).toEqual({ content: 'once', viewsLeft: 0 })
    for (const body of [{}, { claim: newClaim() }]) expectGone(await project.view(token, body))
    expectGone(await project.meta(token))
    wait(59_000)
    await endShares(service.app.services)
    expect((await project.view(token, { claim })).body).toEqual(first.body)
    wait(2_000)
    expectGone(await project.view(token, { claim }))
    expect(await project.find(id)).toMatchObject({ views: 1, state: 'exhausted' })
    expect((await project.views(id)).map(({ outcome }) => outcome)).toEqual(['repeated', 'success'])
  })

  test('is valid on a node whose clock is slightly behind', async () => {
    const { token } = await project.make({ content: 'once' })
    const claim = newClaim()
    await project.view(token, { claim })
    wait(-1_000)
    await endShares(service.app.services)
    expect((await project.view(token, { claim })).body).toEqual({ content: 'once', viewsLeft: 0 })
  })

  test('uses up one view, however many requests carry it at once', async () => {
    const { id, token } = await project.make({ content: 'x', maxViews: 5 })
    const claim = newClaim()
    const answers = await many(8, () => project.view(token, { claim }))
    expect(answers.map(({ body }) => body)).toEqual(Array(8).fill({ content: 'x', viewsLeft: 4 }))
    expect(await project.find(id)).toMatchObject({ views: 1 })
  })

  test('allows ten repetitions', async () => {
    const { token } = await project.make({ content: 'x', maxViews: 5 })
    const claim = newClaim()
    const statuses = []
    for (let request = 0; request < 13; request++) statuses.push((await project.view(token, { claim })).status)
    expect(statuses).toEqual([...Array(11).fill(200), 404, 404])
  })

  test('does not replace the proofs of an end-to-end share', async () => {
    const share = await project.makeSealed({ t: 'text', v: 'x' }, 'passphrase')
    const claim = newClaim()
    expect((await project.view(share.token, { ...share.key, claim })).status).toBe(200)
    expectGone(await project.view(share.token, { claim }))
    expectGone(await project.view(share.token, { ...share.key, linkProof: proof(), claim }))
    const wrong = await project.view(share.token, { ...share.key, passProof: proof(), claim })
    expect(wrong.status).not.toBe(200)
    expect((await project.view(share.token, { ...share.key, claim })).status).toBe(200)
  })

  test('ends when the share is revoked', async () => {
    const { id, token } = await project.make({ content: 'x' })
    const claim = newClaim()
    await project.view(token, { claim })
    await project.revoke(id)
    expectGone(await project.view(token, { claim }))
  })

  test('ends when the share expires', async () => {
    const { token } = await project.make({ content: 'x', expiresIn: 300 })
    const claim = newClaim()
    wait(299_000)
    expect((await project.view(token, { claim })).status).toBe(200)
    wait(1_000)
    expectGone(await project.view(token, { claim }))
  })

  test('uses up another view after its minute', async () => {
    const { id, token } = await project.make({ content: 'x', maxViews: 2 })
    const claim = newClaim()
    await project.view(token, { claim })
    wait(61_000)
    expect((await project.view(token, { claim })).body.viewsLeft).toBe(0)
    expect(await project.find(id)).toMatchObject({ views: 2 })
  })
})

describe('a clock that is set back', () => {
  const hour = 3_600_000

  test.each<[string, (token: string) => Promise<unknown>]>([
    ['a reader', (token) => project.view(token)],
    ['a request for its metadata', (token) => project.meta(token)],
    ['the job', () => endShares(service.app.services)],
  ])('does not revive a share after %s found it expired', async (_who, see) => {
    const { id, token } = await project.make({ content: 'x', expiresIn: 300 })
    wait(hour)
    await see(token)
    service.clock.offsetMs = 0
    expectGone(await project.view(token))
    expectGone(await project.meta(token))
    expect(await project.find(id)).toMatchObject({ state: 'expired' })
  })

  test('does not revive a claim that was refused as too late', async () => {
    const { id, token } = await project.make({ content: 'x' })
    const claim = newClaim()
    await project.view(token, { claim })
    wait(61_000)
    expectGone(await project.view(token, { claim }))
    wait(-40_000)
    expectGone(await project.view(token, { claim }))
    expect(await project.find(id)).toMatchObject({ state: 'exhausted', views: 1 })
  })

  test('does not extend a claim, nor the contents kept for it', async () => {
    const { id, token } = await project.make({ content: 'x' })
    const claim = newClaim()
    await project.view(token, { claim })
    wait(-hour)
    expectGone(await project.view(token, { claim }))
    await endShares(service.app.services)
    service.clock.offsetMs = 0
    expectGone(await project.view(token, { claim }))
    expect(await project.find(id)).toMatchObject({ state: 'exhausted' })
  })
})
