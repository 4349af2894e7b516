/** Every refusal to open a share is the same response. */
import { randomBytes } from 'node:crypto'
import type { ShareKey } from '@coffer/contract/share'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createShareProject, newClaim, type ShareProject, visible } from '../../../../../test/share.ts'
import { changeMember } from '../../../../../test/world.ts'
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

/** Locks of background jobs, which run independently of requests. */
const jobs = new Set(['share', 'usage', 'cleanup'])
const proof = () => randomBytes(32).toString('base64url')
const wait = (ms: number) => {
  service.clock.offsetMs += ms
}
const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

describe('every refusal is the same response:', () => {
  type Refused = { readonly token: string; readonly key?: ShareKey }
  const kinds: [string, () => Promise<Refused>][] = [
    ['an unknown token', async () => ({ token: randomBytes(24).toString('hex').slice(0, 32) })],
    ['a token cut short', async () => ({ token: (await project.make({ content: 'x' })).token.slice(0, -1) })],
    ['a token with one more character', async () => ({ token: `${(await project.make({ content: 'x' })).token}0` })],
    ['a token in lower case', async () => ({ token: (await project.make({ content: 'x' })).token.toLowerCase() })],
    ['a malformed token', async () => ({ token: 'x' })],
    ['a very long token', async () => ({ token: 'x'.repeat(4_000) })],
    ['escaped characters in place of a token', async () => ({ token: '%00%F0%9F%98%80%2F..%2F%27' })],
    ['the id of a share in place of its token', async () => ({ token: (await project.make({ content: 'x' })).id })],
    [
      'a share that has just expired',
      async () => {
        const { token } = await project.make({ content: 'x', expiresIn: 300 })
        wait(300_000)
        return { token }
      },
    ],
    [
      'a share that expired a while ago',
      async () => {
        const { token } = await project.make({ content: 'x', expiresIn: 300 })
        wait(300_000)
        await endShares(service.app.services)
        return { token }
      },
    ],
    [
      'a revoked share',
      async () => {
        const { id, token } = await project.make({ content: 'x' })
        await project.revoke(id)
        return { token }
      },
    ],
    [
      'an exhausted share',
      async () => {
        const { token } = await project.make({ content: 'x' })
        expect((await project.view(token)).status).toBe(200)
        return { token }
      },
    ],
    [
      'an exhausted share kept for its last reader',
      async () => {
        const { token } = await project.make({ content: 'x' })
        expect((await project.view(token, { claim: newClaim() })).status).toBe(200)
        return { token }
      },
    ],
    [
      'an exhausted share with the claim of another reader',
      async () => {
        const { token } = await project.make({ content: 'x', password: 'right' })
        expect((await project.view(token, { password: 'right', claim: newClaim() })).status).toBe(200)
        return { token, key: { password: 'wrong', claim: newClaim() } }
      },
    ],
    [
      'a locked share',
      async () => {
        const { token } = await project.make({ content: 'x', password: 'right', maxFailures: 3 })
        await many(3, () => project.view(token, { password: 'wrong' }))
        return { token, key: { password: 'right' } }
      },
    ],
    [
      'a share whose creator was removed',
      async () => {
        const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
        const email = `${randomBytes(4).toString('hex')}@example.com`
        const maker = await addUser(service, email, { workspaceId: body.id, role: 'developer' })
        const { token } = await project.make({ content: 'x' }, maker.session)
        await changeMember(service, owner, maker.memberId ?? '', 'removed')
        return { token }
      },
    ],
  ]
  const sealed = () => project.makeSealed({ t: 'text', v: 'x' }, 'passphrase', { maxViews: 3 })
  const wrongProofs: [string, () => Promise<Refused>][] = [
    ['a wrong proof of the link', async () => ({ token: (await sealed()).token, key: { linkProof: proof() } })],
    ['no proof of the link', async () => ({ token: (await sealed()).token, key: {} })],
    [
      'a wrong proof of the link and the right one of the passphrase',
      async () => {
        const { token, key } = await sealed()
        return { token, key: { ...key, linkProof: proof() } }
      },
    ],
    ['a password instead of proofs', async () => ({ token: (await sealed()).token, key: { password: 'passphrase' } })],
  ]

  const reference = () => Promise.all([project.view('nobody-has-this'), project.meta('nobody-has-this')])

  test.each(kinds)('%s', async (_what, make) => {
    const [view, meta] = await reference()
    const { token, key } = await make()
    for (let again = 0; again < 2; again++) {
      expect(visible(await project.view(token, key))).toBe(visible(view))
      expect(visible(await project.meta(token))).toBe(visible(meta))
    }
    expect(view).toMatchObject({ status: 404, text: '{"message":"Not found."}' })
  })

  test.each(wrongProofs)('%s', async (_what, make) => {
    const [view] = await reference()
    const { token, key } = await make()
    expect(visible(await project.view(token, key))).toBe(visible(view))
    // Only the view is refused; the share stays active.
    expect((await project.meta(token)).body.viewsLeft).toBe(3)
  })

  test.each([...kinds.filter(([what]) => !/claim of|just/.test(what)), ...wrongProofs])(
    '%s costs one query and writes nothing',
    async (_what, make) => {
      const { token, key } = await make()
      await endShares(service.app.services)
      const { engine } = service.app.services
      // An unknown token makes a node reload keys once per second, and a snapshot is loaded once.
      vi.useFakeTimers({ toFake: ['Date'] })
      await project.view('nobody-has-this')
      await project.view(token, key)
      const before = await readContent(service.app.services)
      const reads = [vi.spyOn(engine, 'one'), vi.spyOn(engine, 'all')]
      const writes = vi.spyOn(engine, 'transaction')
      try {
        await project.view(token, key)
        const texts = reads.flatMap(({ mock }) => mock.calls.map(([{ strings }]) => strings.join('')))
        // Background work queries due syncs twice a second, and the log of changes if a number is missing in it.
        expect(texts.filter((text) => !/from (sync where due_at|change\b)/.test(text))).toEqual([
          expect.stringMatching(/from share\b/),
        ])
        expect(writes.mock.calls.filter(([lock]) => !jobs.has(lock))).toEqual([])
      } finally {
        vi.useRealTimers()
        for (const read of reads) read.mockRestore()
        writes.mockRestore()
      }
      const after = await readContent(service.app.services)
      expect(describeChanges(before, after)).toEqual([])
      expect(after.trail).toBe(before.trail)
    },
  )

  test('an invalid body is refused alike for every token', async () => {
    const { token } = await project.make({ content: 'x' })
    for (const body of [
      { colour: 'red' },
      { password: 1 },
      { linkProof: 'short' },
      { claim: `${newClaim()}A` },
      '[]',
    ]) {
      const answers = await many(2, (at) =>
        service.call('POST', `/v1/share/${at === 0 ? token : 'nobody-has-this'}/view`, { body }),
      )
      expect(answers[0]?.status).toBe(400)
      expect(answers[0] && visible(answers[0])).toBe(answers[1] && visible(answers[1]))
    }
    expect((await project.meta(token)).body.viewsLeft).toBe(1)
  })
})
