/** Reading shares, by people who have nothing but a link, or not even that. */
import { randomBytes } from 'node:crypto'
import type { OpenedShare, ShareKey } from '@coffer/contract/share'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import {
  type Answer,
  addUser,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { sendRaw } from '../../../../../test/raw-socket.ts'
import {
  createShareProject,
  expectGone,
  newClaim,
  readers,
  type ShareProject,
  visible,
} from '../../../../../test/share.ts'
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

/** What runs by itself, whatever is asked. */
const jobs = new Set(['share', 'usage', 'cleanup'])
const proof = () => randomBytes(32).toString('base64url')
const wait = (ms: number) => {
  service.clock.offsetMs += ms
}
const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

describe('every refusal is the same one:', () => {
  type Dead = { readonly token: string; readonly key?: ShareKey }
  const kinds: [string, () => Promise<Dead>][] = [
    ['a token that nobody has', async () => ({ token: randomBytes(24).toString('hex').slice(0, 32) })],
    ['a token cut short', async () => ({ token: (await project.make({ content: 'x' })).token.slice(0, -1) })],
    ['a token with one more character', async () => ({ token: `${(await project.make({ content: 'x' })).token}0` })],
    ['a token in other letters', async () => ({ token: (await project.make({ content: 'x' })).token.toLowerCase() })],
    ['something that is no token', async () => ({ token: 'x' })],
    ['a very long token', async () => ({ token: 'x'.repeat(4_000) })],
    ['strange characters', async () => ({ token: '%00%F0%9F%98%80%2F..%2F%27' })],
    ['the id of a share', async () => ({ token: (await project.make({ content: 'x' })).id })],
    [
      'one that has just expired',
      async () => {
        const { token } = await project.make({ content: 'x', expiresIn: 300 })
        wait(300_000)
        return { token }
      },
    ],
    [
      'one that expired a while ago',
      async () => {
        const { token } = await project.make({ content: 'x', expiresIn: 300 })
        wait(300_000)
        await endShares(service.app.services)
        return { token }
      },
    ],
    [
      'one that was revoked',
      async () => {
        const { id, token } = await project.make({ content: 'x' })
        await project.revoke(id)
        return { token }
      },
    ],
    [
      'one that is used up',
      async () => {
        const { token } = await project.make({ content: 'x' })
        expect((await project.view(token)).status).toBe(200)
        return { token }
      },
    ],
    [
      'one that is used up and kept for its last reader',
      async () => {
        const { token } = await project.make({ content: 'x' })
        expect((await project.view(token, { claim: newClaim() })).status).toBe(200)
        return { token }
      },
    ],
    [
      'the same, with a claim of one’s own',
      async () => {
        const { token } = await project.make({ content: 'x', password: 'right' })
        expect((await project.view(token, { password: 'right', claim: newClaim() })).status).toBe(200)
        return { token, key: { password: 'wrong', claim: newClaim() } }
      },
    ],
    [
      'one that is locked',
      async () => {
        const { token } = await project.make({ content: 'x', password: 'right', maxFailures: 3 })
        await many(3, () => project.view(token, { password: 'wrong' }))
        return { token, key: { password: 'right' } }
      },
    ],
    [
      'one whose maker is gone',
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
  const wrongProofs: [string, () => Promise<Dead>][] = [
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
    // Only a view is refused: the share itself is there.
    expect((await project.meta(token)).body.viewsLeft).toBe(3)
  })

  test.each([...kinds.filter(([what]) => !/claim of|just/.test(what)), ...wrongProofs])(
    '%s costs one look-up, and writes nothing',
    async (_what, make) => {
      const { token, key } = await make()
      await endShares(service.app.services)
      const { engine } = service.app.services
      // Once in a second an unknown token makes a node look for new keys, and a snapshot is loaded once.
      vi.useFakeTimers({ toFake: ['Date'] })
      await project.view('nobody-has-this')
      await project.view(token, key)
      const before = await readContent(service.app.services)
      const reads = vi.spyOn(engine, 'one')
      const writes = vi.spyOn(engine, 'transaction')
      try {
        await project.view(token, key)
        const texts = reads.mock.calls.map(([{ strings }]) => strings.join(''))
        // A job looks for syncs that are due twice a second.
        expect(texts.filter((text) => !/from sync where due_at/.test(text))).toEqual([
          expect.stringMatching(/from share\b/),
        ])
        expect(writes.mock.calls.filter(([lock]) => !jobs.has(lock))).toEqual([])
      } finally {
        vi.useRealTimers()
        reads.mockRestore()
        writes.mockRestore()
      }
      const after = await readContent(service.app.services)
      expect(describeChanges(before, after)).toEqual([])
      expect(after.trail).toBe(before.trail)
    },
  )

  test('a body that is not valid is refused before the token matters', async () => {
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

describe('only POST reads', () => {
  const agents = [
    'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    'Twitterbot/1.0',
    'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
    'WhatsApp/2.23.20.0',
    'TelegramBot (like TwitterBot)',
    'LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)',
    'Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)',
    'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
    'SkypeUriPreview Preview/0.5',
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) SafeLinks',
  ]

  test('1,000 requests of link previewers and scanners use up nothing', async () => {
    const shares = [await project.make({ content: 'x' }), await project.makeSealed({ t: 'text', v: 'x' })]
    const methods = ['GET', 'HEAD', 'OPTIONS']
    const paths = (token: string) => ['', '/', '/meta', '/view', '/view/'].map((end) => `/v1/share/${token}${end}`)
    const targets = shares.flatMap(({ token }) => [...paths(token), `/share/${token}`])
    const requests = methods.flatMap((method) => targets.map((path) => ({ method, path })))
    let sent = 0
    while (sent < 1_000) {
      const agent = agents[sent % agents.length] ?? ''
      await Promise.all(
        requests.map(async ({ method, path }) => {
          sent++
          const { status } = await fetch(service.url + path, { method, headers: { 'user-agent': agent } })
          expect(status, `${method} ${path}`).toBe(path.endsWith('/meta') && method !== 'OPTIONS' ? 200 : 404)
        }),
      )
    }
    for (const { id, token } of shares) {
      expect(await project.find(id)).toMatchObject({ views: 0, failures: 0, state: 'active', lastViewedAt: null })
      expect((await project.meta(token)).body.viewsLeft).toBe(1)
      expect(await project.views(id)).toEqual([])
    }
  })

  test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'])(
    'a POST that says it is a %s is still nothing else',
    async (verb) => {
      const { id, token } = await project.make({ content: 'x' })
      await service.call(verb, `/v1/share/${token}/view`, { headers: { 'x-http-method-override': 'POST' } })
      expect(await project.find(id)).toMatchObject({ views: 0 })
    },
  )
})

describe('a password', () => {
  test('opens the share, and is asked for without being counted', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxViews: 2 })
    expect((await project.meta(token)).body.hasPassword).toBe(true)
    for (let scan = 0; scan < 20; scan++) {
      expect(await project.view(token)).toMatchObject({
        status: 403,
        body: { message: 'password: is required to open this share.' },
      })
    }
    expect(await project.find(id)).toMatchObject({ failures: 0, state: 'active' })
    expect((await project.view(token, { password: 'right' })).body).toEqual({ content: 'guarded', viewsLeft: 1 })
  })

  test('that is wrong is counted, and the limit locks the share for good', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxFailures: 3 })
    for (let failures = 1; failures <= 3; failures++) {
      const answer = await project.view(token, { password: `guess ${failures}` })
      expect(answer).toMatchObject({ status: 403, body: { message: 'The password of this share is wrong.' } })
      expect(await project.find(id)).toMatchObject({ failures, state: failures < 3 ? 'active' : 'locked' })
    }
    expectGone(await project.view(token, { password: 'right' }))
    expectGone(await project.meta(token))
    expect((await project.views(id)).map(({ outcome }) => outcome)).toEqual(['failure', 'failure', 'failure'])
  })

  test('is guessed at no more often than the limit says, however many try at once', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxFailures: 5 })
    const answers = await many(60, (at) => project.view(token, { password: `guess ${at}` }))
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(5)
    for (const answer of answers.filter(({ status }) => status !== 403)) expectGone(answer)
    expect(await project.find(id)).toMatchObject({ failures: 5, state: 'locked', views: 0 })
  })

  test('that is right for many at once locks nobody out', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxFailures: 3, maxViews: 20 })
    const answers = await many(24, () => project.view(token, { password: 'right' }))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20)
    expect(await project.find(id)).toMatchObject({ failures: 0, views: 20, state: 'exhausted' })
  })

  test('is not needed where none was set: one that is sent is ignored', async () => {
    const { token } = await project.make({ content: 'open' })
    expect((await project.view(token, { password: 'any' })).status).toBe(200)
  })
})

describe('an end-to-end share', () => {
  const content = { t: 'kv', items: [{ name: 'KEY', value: 'value' }] } as const

  test('with a passphrase opens with both proofs, and counts wrong passphrases of who has the link', async () => {
    const share = await project.makeSealed(content, 'passphrase', { maxFailures: 3 })
    const { linkProof } = share.key
    expect(await project.view(share.token, { linkProof })).toMatchObject({ status: 403 })
    expect(await project.find(share.id)).toMatchObject({ failures: 0, hasPassword: true })
    expect(await project.view(share.token, { linkProof, passProof: proof() })).toMatchObject({ status: 403 })
    expect(await project.find(share.id)).toMatchObject({ failures: 1 })
    const { body } = await project.view(share.token, share.key)
    expect(await share.open(body.ciphertext ?? '', body.commit ?? '')).toEqual(content)
  })

  test('is locked by wrong passphrases of who has the link', async () => {
    const { id, token, key } = await project.makeSealed(content, 'passphrase', { maxFailures: 3 })
    for (let guess = 0; guess < 3; guess++) {
      expect((await project.view(token, { ...key, passProof: proof() })).status).toBe(403)
    }
    expectGone(await project.view(token, key))
    expect(await project.find(id)).toMatchObject({ state: 'locked' })
  })

  test('cannot be counted, locked or used up by a stranger who has only its token', async () => {
    const { id, token, key } = await project.makeSealed(content, 'passphrase', { maxFailures: 3 })
    const attempts: ShareKey[] = [
      {},
      { linkProof: proof() },
      { linkProof: proof(), passProof: proof() },
      { passProof: key.passProof ?? '' },
      { password: 'passphrase' },
      { claim: newClaim() },
      { linkProof: proof(), passProof: key.passProof ?? '', claim: newClaim() },
    ]
    for (const answer of await many(210, (at) => project.view(token, attempts[at % attempts.length])))
      expectGone(answer)
    expect(await project.find(id)).toMatchObject({ views: 0, failures: 0, state: 'active' })
    expect(await project.views(id)).toEqual([])
    expect((await project.view(token, key)).status).toBe(200)
  })
})

describe('a claim', () => {
  // By the second: no time passes but what a test waits.
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

  test('is good on a node whose clock is a little behind', async () => {
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

  test('is good for ten repetitions', async () => {
    const { token } = await project.make({ content: 'x', maxViews: 5 })
    const claim = newClaim()
    const statuses = []
    for (let request = 0; request < 13; request++) statuses.push((await project.view(token, { claim })).status)
    expect(statuses).toEqual([...Array(11).fill(200), 404, 404])
  })

  test('of an end-to-end share needs its proofs all the same', async () => {
    const share = await project.makeSealed({ t: 'text', v: 'x' }, 'passphrase')
    const claim = newClaim()
    expect((await project.view(share.token, { ...share.key, claim })).status).toBe(200)
    expectGone(await project.view(share.token, { claim }))
    expectGone(await project.view(share.token, { ...share.key, linkProof: proof(), claim }))
    const wrong = await project.view(share.token, { ...share.key, passProof: proof(), claim })
    expect(wrong.status).not.toBe(200)
    expect((await project.view(share.token, { ...share.key, claim })).status).toBe(200)
  })

  test('ends with the share: revoked is revoked', async () => {
    const { id, token } = await project.make({ content: 'x' })
    const claim = newClaim()
    await project.view(token, { claim })
    await project.revoke(id)
    expectGone(await project.view(token, { claim }))
  })

  test('ends with the share: expired is expired', async () => {
    const { token } = await project.make({ content: 'x', expiresIn: 300 })
    const claim = newClaim()
    wait(299_000)
    expect((await project.view(token, { claim })).status).toBe(200)
    wait(1_000)
    expectGone(await project.view(token, { claim }))
  })

  test('of a while ago takes a view like any other', async () => {
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
    ['a question about it', (token) => project.meta(token)],
    ['the job', () => endShares(service.app.services)],
  ])('does not revive a share that %s has seen expired', async (_who, see) => {
    const { id, token } = await project.make({ content: 'x', expiresIn: 300 })
    wait(hour)
    await see(token)
    service.clock.offsetMs = 0
    expectGone(await project.view(token))
    expectGone(await project.meta(token))
    expect(await project.find(id)).toMatchObject({ state: 'expired' })
  })

  test('does not revive a claim that was seen to be too late', async () => {
    const { id, token } = await project.make({ content: 'x' })
    const claim = newClaim()
    await project.view(token, { claim })
    wait(61_000)
    expectGone(await project.view(token, { claim }))
    wait(-40_000)
    expectGone(await project.view(token, { claim }))
    expect(await project.find(id)).toMatchObject({ state: 'exhausted', views: 1 })
  })

  test('does not keep a claim alive, nor what was kept for it', async () => {
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

describe('the limits of the public routes', () => {
  test('are their own: who has used them up is served everywhere else', async () => {
    const limited = await startService({ COFFER_SHARE_RATE_LIMIT: '5', COFFER_RATE_LIMIT: '100' })
    try {
      const { session } = await registerOwner(limited)
      const alone = await createShareProject(limited, session)
      const { id, token } = await alone.make({ content: 'x', maxViews: 10 })
      const answers = await many(12, (at) => (at % 2 ? alone.meta(token) : alone.meta('nobody-has-this')))
      expect(answers.filter(({ status }) => status !== 429)).toHaveLength(5)
      const refused = answers.filter(({ status }) => status === 429)
      for (const { headers, body } of refused) {
        expect(headers.get('ratelimit-limit')).toBe('5')
        expect(body).toMatchObject({ message: expect.stringMatching(/^Rate limit exceeded/) })
      }
      expect((await alone.view(token)).status).toBe(429)
      const me = await limited.call('GET', '/v1/me', { token: session })
      expect(me.status).toBe(200)
      expect(me.headers.get('ratelimit-limit')).toBe('100')
      expect(await alone.find(id)).toMatchObject({ views: 0 })
    } finally {
      await limited.stop()
    }
  })

  test('come on top of the limit per address, and the headers tell the nearer of the two', async () => {
    const limited = await startService({ COFFER_SHARE_RATE_LIMIT: '50', COFFER_RATE_LIMIT: '3' })
    try {
      const statuses: number[] = []
      for (let request = 0; request < 4; request++) {
        const { status, headers } = await readers(limited).meta('nobody-has-this')
        statuses.push(status)
        expect(headers.get('ratelimit-limit')).toBe('3')
      }
      expect(statuses).toEqual([404, 404, 404, 429])
    } finally {
      await limited.stop()
    }
  })

  test('a body for a view is 64 KiB at most', async () => {
    const { token } = await project.make({ content: 'x' })
    const body = `{"password":"${'x'.repeat(64 * 1024)}"}`
    const head = `POST /v1/share/${token}/view HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n`
    const [answer] = await sendRaw(service.url, `${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    expect(answer?.status).toBe(413)
    expect(JSON.parse(answer?.body ?? '')).toEqual({ message: 'The request body is larger than 64 KiB.' })
  })
})

test('a flood of guesses from everywhere writes nothing, and costs nobody else an answer', async () => {
  const flooded = await startService({
    COFFER_TRUSTED_PROXIES: '127.0.0.0/8',
    COFFER_SHARE_RATE_LIMIT: '60',
    COFFER_RATE_LIMIT: '200',
  })
  try {
    const first = await registerOwner(flooded)
    const alone = await createShareProject(flooded, first.session)
    await alone.set('development', { KEY: 'value' })
    const { token } = await createToken(flooded, first.session)
    const share = await alone.makeSealed({ t: 'text', v: 'x' }, 'passphrase')
    const guarded = await alone.make({ content: 'x', password: 'right', maxFailures: 20 })
    const before = await readContent(flooded.app.services)
    const from = (at: number) => ({ 'x-forwarded-for': `198.51.${at % 100}.${Math.floor(at / 100)}` })
    const guesses: ((at: number) => Promise<Answer<unknown>>)[] = [
      (at) => alone.view(`guess-${at}`, { password: 'guess' }, from(at)),
      (at) => alone.view(share.token, { linkProof: proof(), passProof: proof() }, from(at)),
      (at) => alone.meta(`guess-${at}`, from(at)),
    ]
    const flood = many(600, async (at) => {
      const answer = await guesses[at % guesses.length]?.(at)
      expect([404, 503]).toContain(answer?.status)
    })
    const others: number[] = []
    for (let round = 0; round < 5; round++) {
      const body = { email: first.email, password }
      const answers = await Promise.all([
        flooded.call('POST', '/v1/auth/login', { body }),
        flooded.call('GET', `${alone.root}/secret`, { token }),
        flooded.call('GET', '/v1/me', { token: first.session }),
      ])
      others.push(...answers.map(({ status }) => status))
    }
    await flood
    expect(others).toEqual(Array(15).fill(200))
    const changed = describeChanges(before, await readContent(flooded.app.services))
    expect(changed.filter((line) => /^share/.test(line))).toEqual([])
    expect((await alone.view(share.token, share.key)).status).toBe(200)
    expect((await alone.view(guarded.token, { password: 'right' })).status).toBe(200)
  } finally {
    await flooded.stop()
  }
})

test('the answer to a view is not for any cache, and names no type that a browser would show', async () => {
  const { token } = await project.make({ content: '<script>alert(1)</script>' })
  const { headers, body }: Answer<OpenedShare> = await project.view(token)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(body.content).toBe('<script>alert(1)</script>')
})
