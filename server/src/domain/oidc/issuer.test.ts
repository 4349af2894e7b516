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
  const ask = (path: string) => issuers.findProblem({ url: server.url + path, reach: 'allowed' }, token)
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
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed' }, old)).toBeUndefined()
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed' }, stranger)).toContain('no key that matches')
  now -= 24 * 60 * 60_000
  const next = await createKey('ES256', 'second')
  server.keys.splice(0, 1, next.jwk)
  expect(await issuers.findProblem({ url: server.url, reach: 'allowed' }, old)).toContain('no key that matches')
  expect(
    await issuers.findProblem({ url: server.url, reach: 'allowed' }, await server.sign({}, {}, next)),
  ).toBeUndefined()
  await server.stop()
})
