import { expect, test } from 'vitest'
import { createKey, startIssuer } from '../../../../test/issuer.ts'
import { createOutbound } from '../../outbound.ts'
import { parseAllowList } from '../../outbound-allow.ts'
import { createIssuers } from './issuer.ts'

test('the keys of five hundred issuers are cached; the least recently used are evicted', async () => {
  const server = await startIssuer()
  const fetched = (path: string) =>
    server.requests.filter((url) => url === `${path}/.well-known/openid-configuration`).length
  server.answer = (request, response) => {
    const [, path] = /^(.*)\/\.well-known\/openid-configuration$/.exec(request.url ?? '') ?? []
    if (path === undefined) return false
    response.end(JSON.stringify({ issuer: server.url + path, jwks_uri: `${server.url}/keys` }))
    return true
  }
  const issuers = createIssuers(createOutbound({ allow: parseAllowList('127.0.0.1') }), Date.now)
  const token = await server.sign()
  const ask = (path: string) => issuers.findProblem({ url: server.url + path, reach: 'allowed', changedAt: 0 }, token)
  for (let index = 0; index < 500; index++) expect(await ask(`/${index}`)).toBeUndefined()
  // Using the first issuer again makes the second one the oldest.
  await ask('/0')
  await ask('/500')
  await ask('/0')
  expect(fetched('/0')).toBe(1)
  await ask('/1')
  expect(fetched('/1')).toBe(2)
  await server.stop()
})

test('after the clock is set back, revoked keys are rejected and new ones accepted', async () => {
  const server = await startIssuer()
  let now = Date.now()
  const issuers = createIssuers(createOutbound({ allow: parseAllowList('127.0.0.1') }), () => now)
  const old = await server.sign()
  const stranger = await server.sign({}, {}, await createKey('ES256', 'never'))
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed', changedAt: 0 }, old)).toBeUndefined()
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed', changedAt: 0 }, stranger)).toContain(
    'no key that matches',
  )
  now -= 24 * 60 * 60_000
  const next = await createKey('ES256', 'second')
  server.keys.splice(0, 1, next.jwk)
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed', changedAt: 0 }, old)).toContain(
    'no key that matches',
  )
  expect(
    await issuers.findProblem({ url: server.url, reach: 'allowed', changedAt: 0 }, await server.sign({}, {}, next)),
  ).toBeUndefined()
  await server.stop()
})

test('an unknown kid fetches the keys every ten seconds at most, and a change of the identity at once', async () => {
  const server = await startIssuer()
  const startedAt = Date.now()
  let now = startedAt
  let changedAt = 0
  const issuers = createIssuers(createOutbound({ allow: parseAllowList('127.0.0.1') }), () => now)
  const ask = (token: string) => issuers.findProblem({ url: server.url, reach: 'allowed', changedAt }, token)
  const forged = await server.sign({}, {}, await createKey('ES256', 'never'))
  expect(await ask(await server.sign())).toBeUndefined()
  // A stranger asks for a key that never was, just before the issuer rotates.
  expect(await ask(forged)).toContain('no key that matches')
  const next = await createKey('ES256', 'second')
  server.keys.splice(0, 1, next.jwk)
  const rotated = await server.sign({}, {}, next)
  now += 9_999
  expect(await ask(rotated)).toContain('no key that matches')
  now += 1
  expect(await ask(rotated)).toBeUndefined()

  expect(await ask(forged)).toContain('no key that matches')
  const third = await createKey('ES256', 'third')
  server.keys.splice(0, 1, third.jwk)
  const newest = await server.sign({}, {}, third)
  expect(await ask(newest)).toContain('no key that matches')
  changedAt = now += 1
  expect(await ask(newest)).toBeUndefined()
  const fetched = server.requests.length
  expect(await ask(newest)).toBeUndefined()
  expect(server.requests.length).toBe(fetched)
  await server.stop()
})

test('a change by a node whose clock is ahead fetches the keys once, and not with every token until then', async () => {
  const server = await startIssuer()
  const now = Date.now()
  const issuers = createIssuers(createOutbound({ allow: parseAllowList('127.0.0.1') }), () => now)
  let changedAt = 0
  const ask = (token: string) => issuers.findProblem({ url: server.url, reach: 'allowed', changedAt }, token)
  const forged = await server.sign({}, {}, await createKey('ES256', 'never'))
  expect(await ask(await server.sign())).toBeUndefined()
  expect(await ask(forged)).toContain('no key that matches')
  const next = await createKey('ES256', 'second')
  server.keys.splice(0, 1, next.jwk)
  changedAt = now + 25_000
  expect(await ask(await server.sign({}, {}, next))).toBeUndefined()
  const fetched = server.requests.length
  for (let time = 0; time < 3; time++) expect(await ask(forged)).toContain('no key that matches')
  expect(server.requests.length).toBe(fetched)
  await server.stop()
})
