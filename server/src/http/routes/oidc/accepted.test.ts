/** Tokens of external issuers are accepted with every supported algorithm, and with clocks that differ by a minute. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, test, vi } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import {
  type Claims,
  createIdentity,
  createKey,
  federate,
  loopbackAllowed,
  type SigningKey,
  startIssuer,
  type TestIssuer,
} from '../../../../../test/issuer.ts'

let service: TestService
let issuer: TestIssuer
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const keys = new Map<string, SigningKey>()

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  issuer = await startIssuer(() => service.app.services.now())
  for (const alg of algorithms) keys.set(alg, await createKey(alg, `key ${alg}`))
  issuer.keys.push(...algorithms.flatMap((alg) => keys.get(alg)?.jwk ?? []))
  const owner = await registerOwner(service)
  await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'somebody' })
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})

const seconds = () => Math.floor(service.app.services.now() / 1000)

describe('a token is accepted with', () => {
  // The clock is frozen: in a slow test, an expiry 55 seconds ago would become one of more than 60.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() }))
  afterEach(() => void vi.useRealTimers())

  test.each(algorithms)('%s', async (alg) => {
    await federate(service, await issuer.sign({}, {}, keys.get(alg)))
  })

  test.each<[string, () => Claims, Claims]>([
    ['no type', () => ({}), { typ: undefined }],
    ['the type of an access token', () => ({}), { typ: 'at+jwt' }],
    ['the long type of an access token', () => ({}), { typ: 'application/at+jwt' }],
    ['a lower-case type', () => ({}), { typ: 'jwt' }],
    ['a thumbprint in the header', () => ({}), { x5t: 'abc' }],
    ['a list of only our audience', () => ({ aud: ['coffer'] }), {}],
    ['several audiences and our azp', () => ({ aud: ['another', 'coffer'], azp: 'coffer' }), {}],
    ['one audience and another azp', () => ({ azp: '1234567890' }), {}],
    ['an expiry 55 seconds ago', () => ({ exp: seconds() - 55 }), {}],
    ['a start in 55 seconds', () => ({ nbf: seconds() + 55 }), {}],
    ['an issue time in 55 seconds', () => ({ iat: seconds() + 55 }), {}],
    ['fractional times', () => ({ iat: seconds() + 0.25, exp: seconds() + 10.5 }), {}],
  ])('%s', async (_what, more, header) => {
    await federate(service, await issuer.sign(more(), header))
  })
})
