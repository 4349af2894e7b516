/** Reading shares without an account, with the link or without it. */
import { randomBytes } from 'node:crypto'
import type { OpenedShare, ShareKey } from '@coffer/contract/share'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import {
  type Answer,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { sendRaw } from '../../../../../test/raw-socket.ts'
import { createShareProject, expectGone, newClaim, readers, type ShareProject } from '../../../../../test/share.ts'

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
const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

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

  test('1,000 requests from link previewers and scanners use up no view', async () => {
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
    'a %s with a method override to POST is not a view',
    async (verb) => {
      const { id, token } = await project.make({ content: 'x' })
      await service.call(verb, `/v1/share/${token}/view`, { headers: { 'x-http-method-override': 'POST' } })
      expect(await project.find(id)).toMatchObject({ views: 0 })
    },
  )
})

describe('a password', () => {
  test('opens the share, and a missing password is no failure', async () => {
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

  test('is counted as a failure when wrong, and maxFailures locks the share permanently', async () => {
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

  test('can be guessed at most maxFailures times, whatever the concurrency', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxFailures: 5 })
    const answers = await many(60, (at) => project.view(token, { password: `guess ${at}` }))
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(5)
    for (const answer of answers.filter(({ status }) => status !== 403)) expectGone(answer)
    expect(await project.find(id)).toMatchObject({ failures: 5, state: 'locked', views: 0 })
  })

  test('sent correctly by many concurrent readers locks nobody out', async () => {
    const { id, token } = await project.make({ content: 'guarded', password: 'right', maxFailures: 3, maxViews: 20 })
    const answers = await many(24, () => project.view(token, { password: 'right' }))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20)
    expect(await project.find(id)).toMatchObject({ failures: 0, views: 20, state: 'exhausted' })
  })

  test('is ignored if the share has none', async () => {
    const { token } = await project.make({ content: 'open' })
    expect((await project.view(token, { password: 'any' })).status).toBe(200)
  })
})

describe('an end-to-end share', () => {
  const content = { t: 'kv', items: [{ name: 'KEY', value: 'value' }] } as const

  test('with a passphrase opens with both proofs, and counts wrong passphrases from holders of the link', async () => {
    const share = await project.makeSealed(content, 'passphrase', { maxFailures: 3 })
    const { linkProof } = share.key
    expect(await project.view(share.token, { linkProof })).toMatchObject({ status: 403 })
    expect(await project.find(share.id)).toMatchObject({ failures: 0, hasPassword: true })
    expect(await project.view(share.token, { linkProof, passProof: proof() })).toMatchObject({ status: 403 })
    expect(await project.find(share.id)).toMatchObject({ failures: 1 })
    const { body } = await project.view(share.token, share.key)
    expect(await share.open(body.ciphertext ?? '', body.commit ?? '')).toEqual(content)
  })

  test('is locked by wrong passphrases from holders of the link', async () => {
    const { id, token, key } = await project.makeSealed(content, 'passphrase', { maxFailures: 3 })
    for (let guess = 0; guess < 3; guess++) {
      expect((await project.view(token, { ...key, passProof: proof() })).status).toBe(403)
    }
    expectGone(await project.view(token, key))
    expect(await project.find(id)).toMatchObject({ state: 'locked' })
  })

  test('cannot be locked or used up by someone who has only its token', async () => {
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
    // Not all at once: on a slow machine the last ones would wait too long, and be refused with 503.
    for (let round = 0; round < 5; round++) {
      const answers = await many(42, (at) => project.view(token, attempts[at % attempts.length]))
      for (const answer of answers) expectGone(answer)
    }
    expect(await project.find(id)).toMatchObject({ views: 0, failures: 0, state: 'active' })
    expect(await project.views(id)).toEqual([])
    expect((await project.view(token, key)).status).toBe(200)
  })
})

describe('the rate limits of the public routes', () => {
  test('are separate: a client that has used them up is served everywhere else', async () => {
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

  test('apply in addition to the limit per address, and the headers show the nearer one', async () => {
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

  test('the body of a view is at most 64 KiB', async () => {
    const { token } = await project.make({ content: 'x' })
    const body = `{"password":"${'x'.repeat(64 * 1024)}"}`
    const head = `POST /v1/share/${token}/view HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n`
    const [answer] = await sendRaw(service.url, `${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    expect(answer?.status).toBe(413)
    expect(JSON.parse(answer?.body ?? '')).toEqual({ message: 'The request body is larger than 64 KiB.' })
  })
})

test('a flood of guesses from many addresses writes nothing and blocks no other request', async () => {
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

test('the response to a view is never cached, and has no content type that a browser would render', async () => {
  const { token } = await project.make({ content: '<script>alert(1)</script>' })
  const { headers, body }: Answer<OpenedShare> = await project.view(token)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(body.content).toBe('<script>alert(1)</script>')
})
