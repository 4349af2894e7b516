/**
 * Forged tokens of external issuers. Each gets the same response, whatever is wrong with it; the reason is in the audit
 * trail of the workspace, and `test` shows it to an admin.
 */
import { createHmac, createSign, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto'
import type { AuditEntry } from '@coffer/contract/audit'
import type { IdentityCheck, IdentityVerdict } from '@coffer/contract/oidc'
import { exportSPKI, type JWK } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  type Claims,
  createIdentity,
  createKey,
  loopbackAllowed,
  type SigningKey,
  startIssuer,
  type TestIdentity,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

let service: TestService
let issuer: TestIssuer
let stranger: TestIssuer
let owner: TestUser
let identity: TestIdentity
let ownJwt: string
const attacker: { key?: SigningKey } = {}
const small = generateKeyPairSync('rsa', { modulusLength: 1024 })
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const keys = new Map<string, SigningKey>()

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  const now = () => service.app.services.now()
  issuer = await startIssuer(now)
  stranger = await startIssuer(now)
  attacker.key = await createKey('RS256', 'attacker')
  for (const alg of algorithms) keys.set(alg, await createKey(alg, `key ${alg}`))
  const curve = await createKey('ES384', 'other curve')
  const { alg: _alg, ...curveWithoutAlgorithm } = curve.jwk
  keys.set('other curve', curve)
  const sealing = await createKey('RS256', 'sealing')
  keys.set('sealing', sealing)
  issuer.keys.push(
    ...algorithms.flatMap((alg) => keys.get(alg)?.jwk ?? []),
    curveWithoutAlgorithm,
    { ...sealing.jwk, use: 'enc' },
    { ...small.publicKey.export({ format: 'jwk' }), kid: 'small' } as JWK,
    { kty: 'oct', k: Buffer.from('a secret for all').toString('base64url'), kid: 'oct', alg: 'HS256' },
  )
  owner = await registerOwner(service)
  identity = await createIdentity(service, owner.session, { issuer: issuer.url, subject: 'somebody' })
  ownJwt = await exchange(service, (await createToken(service, owner.session)).token)
  expect((await tryFederation(service, await issuer.sign())).status).toBe(200)
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
  await stranger.stop()
})

const seconds = () => Math.floor(service.app.services.now() / 1000)
const encode = (part: unknown) =>
  Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')
const claims = (more: Claims = {}) => ({
  iss: issuer.url,
  aud: 'coffer',
  sub: 'somebody',
  iat: seconds(),
  exp: seconds() + 300,
  ...more,
})
const rs256 = { alg: 'RS256', kid: 'first', typ: 'JWT' }

/** Signs any text with the issuer's own key. */
async function signed(head: unknown, body: unknown): Promise<string> {
  const text = `${encode(head)}.${encode(body)}`
  const key = await crypto.subtle.exportKey('pkcs8', issuer.key.privateKey)
  const by = createSign('sha256').update(text)
  return `${text}.${by.sign({ key: Buffer.from(key), format: 'der', type: 'pkcs8' }, 'base64url')}`
}

const hmac = (secret: string | Buffer, head: object) => {
  const text = `${encode(head)}.${encode(claims())}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

async function byAttacker(header: Claims): Promise<string> {
  if (!attacker.key) throw new Error('the key of the attacker is missing')
  return issuer.sign({}, { kid: 'first', ...header }, attacker.key)
}

async function mangled(change: (parts: [string, string, string]) => string): Promise<string> {
  const [head = '', body = '', signature = ''] = (await issuer.sign()).split('.')
  return change([head, body, signature])
}

function bySmallKey(key: KeyObject): string {
  const text = `${encode({ alg: 'RS256', kid: 'small', typ: 'JWT' })}.${encode(claims())}`
  return `${text}.${signBytes('sha256', Buffer.from(text), key).toString('base64url')}`
}

async function byKey(name: string, header: Claims): Promise<string> {
  const key = keys.get(name)
  if (!key) throw new Error(`there is no key ${name}`)
  const { privateKey } = key
  const text = `${encode(header)}.${encode(claims())}`
  const algorithm = { name: privateKey.algorithm.name, hash: 'SHA-256', saltLength: 32 }
  const signature = await crypto.subtle.sign(algorithm, privateKey, Buffer.from(text))
  return `${text}.${Buffer.from(signature).toString('base64url')}`
}

type Forgery = readonly [what: string, check: string, make: () => Promise<string> | string]

const headers: Forgery[] = [
  ...['none', 'None', 'NONE', '', 'null', 'HS256', 'HS512', 'rs256', 'RS1', 'RSA1_5', 'ES256K', 'dir'].map(
    (alg): Forgery => [`the algorithm "${alg}"`, 'algorithm', () => signed({ ...rs256, alg }, claims())],
  ),
  ['no algorithm', 'algorithm', () => signed({ kid: 'first' }, claims())],
  ['a list of algorithms', 'algorithm', () => signed({ ...rs256, alg: ['RS256'] }, claims())],
  ['the algorithm none and no signature', 'form', () => `${encode({ alg: 'none' })}.${encode(claims())}.`],
  ['the algorithm none and two parts', 'form', () => `${encode({ alg: 'none' })}.${encode(claims())}`],
  ...['dpop+jwt', 'logout+jwt', 'secevent+jwt', 'JWS', 'JWE', '', 1, null, ['JWT']].map(
    (typ): Forgery => [`the type ${JSON.stringify(typ)}`, 'type', () => signed({ ...rs256, typ }, claims())],
  ),
  ['an embedded jwk', 'header', () => byAttacker({ jwk: attacker.key?.jwk })],
  ['an embedded jwk of the issuer itself', 'header', () => signed({ ...rs256, jwk: issuer.key.jwk }, claims())],
  ['a jku', 'header', () => byAttacker({ kid: 'attacker', jku: `${stranger.url}/keys` })],
  ['an x5u', 'header', () => byAttacker({ kid: 'attacker', x5u: `${stranger.url}/certificate` })],
  ['an x5c', 'header', () => byAttacker({ x5c: ['MIIB'] })],
  ['crit', 'header', () => signed({ ...rs256, crit: ['exp'], exp: 1 }, claims())],
  ['b64', 'header', () => signed({ ...rs256, b64: false }, claims())],
  ['zip', 'header', () => signed({ ...rs256, zip: 'DEF' }, claims())],
  ['cty', 'header', () => signed({ ...rs256, cty: 'JWT' }, claims())],
  ...[1, null, ['first'], { toString: 'first' }, true].map(
    (kid): Forgery => [`the kid ${JSON.stringify(kid)}`, 'header', () => signed({ ...rs256, kid }, claims())],
  ),
  ...['unknown', '', 'FIRST', ' first', 'first\0', '../first', '/dev/null', "first' or '1'='1", '__proto__', '0'].map(
    (kid): Forgery => [`the kid ${JSON.stringify(kid)}`, 'signature', () => signed({ ...rs256, kid }, claims())],
  ),
  ['a kid of the maximum length', 'signature', () => signed({ ...rs256, kid: 'k'.repeat(8_000) }, claims())],
  ['no kid although several keys fit', 'signature', () => signed({ alg: 'RS256', typ: 'JWT' }, claims())],
  ['the algorithm twice', 'form', () => signed('{"alg":"none","kid":"first","alg":"RS256"}', claims())],
  ['a list as header', 'form', () => signed([rs256], claims())],
  ['null as header', 'form', () => signed(null, claims())],
]

const others: Forgery[] = [
  ['the public key as HMAC secret, PEM', 'algorithm', async () => hmac(await exportSPKI(issuer.key.publicKey), hs256)],
  ['the public key as HMAC secret, JWK', 'algorithm', () => hmac(JSON.stringify(issuer.key.jwk), hs256)],
  ['the public key as HMAC secret, modulus', 'algorithm', () => hmac(Buffer.from(issuer.key.jwk.n ?? ''), hs256)],
  ['the public key as HMAC secret under RS256', 'signature', () => hmac(issuer.key.jwk.n ?? '', rs256)],
  ['a shared secret from the issuer’s own keys', 'algorithm', () => hmac('a secret for all', { ...hs256, kid: 'oct' })],
  ['another key under the same kid', 'signature', () => byAttacker({})],
  ['another key under its own kid', 'signature', () => byAttacker({ kid: 'attacker' })],
  ['an RSA key of 1024 bits', 'signature', () => bySmallKey(small.privateKey)],
  ['a key of another curve', 'signature', () => byKey('other curve', { alg: 'ES256', kid: 'other curve' })],
  ['a key for encryption', 'signature', () => byKey('sealing', { alg: 'RS256', kid: 'sealing' })],
  ['RS256 by a key for PS256', 'signature', () => byKey('PS256', { alg: 'RS256', kid: 'key PS256' })],
  ['PS256 by a key for RS256', 'signature', () => signed({ ...rs256, alg: 'PS256' }, claims())],
  [
    'a signature of zeros',
    'signature',
    () => mangled(([h, b]) => `${h}.${b}.${Buffer.alloc(256).toString('base64url')}`),
  ],
  ['a shorter signature', 'signature', () => mangled(([h, b, s]) => `${h}.${b}.${s.slice(0, -6)}`)],
  ['another subject', 'signature', () => mangled(([h, , s]) => `${h}.${encode(claims({ sub: 'other' }))}.${s}`)],
  ['a later expiry', 'signature', () => mangled(([h, , s]) => `${h}.${encode(claims({ exp: seconds() + 900 }))}.${s}`)],
  ['an added claim', 'signature', () => mangled(([h, , s]) => `${h}.${encode(claims({ admin: true }))}.${s}`)],
  ['a padded signature', 'form', () => mangled(([h, b, s]) => `${h}.${b}.${s}=`)],
  ['a padded payload', 'form', () => mangled(([h, b, s]) => `${h}.${b}==.${s}`)],
  ['a line break inside', 'form', () => mangled(([h, b, s]) => `${h}.${b.slice(0, 10)}\n${b.slice(10)}.${s}`)],
  ['a leading space', 'form', () => mangled((parts) => ` ${parts.join('.')}`)],
  ['a fourth part', 'form', () => mangled((parts) => `${parts.join('.')}.${parts[2]}`)],
  ['five parts', 'form', () => mangled(([h, b, s]) => [h, b, b, b, s].join('.'))],
  ['no payload', 'form', () => mangled(([h, , s]) => `${h}..${s}`)],
  [
    'JSON instead of the compact form',
    'form',
    () => mangled(([h, b, s]) => JSON.stringify({ protected: h, payload: b, signature: s })),
  ],
  [
    'invalid UTF-8',
    'form',
    () => mangled(([h, , s]) => `${h}.${Buffer.from('7b2261223a22ff227d', 'hex').toString('base64url')}.${s}`),
  ],
  ['nothing', 'form', () => '.'],
  ['dots', 'form', () => '..'],
  ['a JWT of Coffer', 'issuer', () => ownJwt],
]
const hs256 = { alg: 'HS256', kid: 'first', typ: 'JWT' }

const withClaims = (what: string, check: string, more: () => Claims): Forgery => [
  what,
  check,
  () => signed(rs256, claims(more())),
]
const claimed: Forgery[] = [
  withClaims('the issuer with a trailing slash', 'issuer', () => ({ iss: `${issuer.url}/` })),
  withClaims('the issuer in capitals', 'issuer', () => ({ iss: issuer.url.toUpperCase() })),
  withClaims('another issuer', 'issuer', () => ({ iss: stranger.url })),
  withClaims('an issuer with NUL', 'issuer', () => ({ iss: `${issuer.url}\0` })),
  withClaims('an issuer with a lone surrogate', 'issuer', () => ({ iss: `${issuer.url}\ud800` })),
  withClaims('an issuer of the maximum length', 'issuer', () => ({ iss: `https://${'x'.repeat(8_000)}` })),
  withClaims('a list of issuers', 'issuer', () => ({ iss: [issuer.url] })),
  withClaims('no issuer', 'issuer', () => ({ iss: undefined })),
  withClaims('another audience', 'audience', () => ({ aud: 'another' })),
  withClaims('the audience in capitals', 'audience', () => ({ aud: 'COFFER' })),
  withClaims('no audience', 'audience', () => ({ aud: undefined })),
  withClaims('an empty list of audiences', 'audience', () => ({ aud: [] })),
  withClaims('a list without our audience', 'audience', () => ({ aud: ['another'] })),
  withClaims('our audience in a list in a list', 'audience', () => ({ aud: [['coffer']] })),
  withClaims('a null audience beside ours', 'audience', () => ({ aud: ['coffer', null], azp: 'coffer' })),
  withClaims('several audiences and no azp', 'authorizedParty', () => ({ aud: ['coffer', 'another'] })),
  withClaims('several audiences and another azp', 'authorizedParty', () => ({
    aud: ['coffer', 'another'],
    azp: 'another',
  })),
  withClaims('the same audience twice', 'authorizedParty', () => ({ aud: ['coffer', 'coffer'] })),
  withClaims('a list as azp', 'authorizedParty', () => ({ azp: ['coffer'] })),
  withClaims('no expiry', 'expires', () => ({ exp: undefined })),
  withClaims('an expiry 61 seconds ago', 'expires', () => ({ exp: seconds() - 61 })),
  withClaims('an expiry as text', 'expires', () => ({ exp: String(seconds() + 300) })),
  withClaims('an expiry beyond any date', 'expires', () => ({ exp: 1e300 })),
  withClaims('a null expiry', 'expires', () => ({ exp: null })),
  withClaims('a start in two minutes', 'notBefore', () => ({ nbf: seconds() + 120 })),
  withClaims('a start as text', 'notBefore', () => ({ nbf: 'now' })),
  withClaims('a null start', 'notBefore', () => ({ nbf: null })),
  withClaims('an issue time in two minutes', 'issuedAt', () => ({ iat: seconds() + 120 })),
  withClaims('no issue time', 'issuedAt', () => ({ iat: undefined })),
  withClaims('an issue time as text', 'issuedAt', () => ({ iat: '1' })),
  withClaims('a negative issue time', 'issuedAt', () => ({ iat: -1 })),
  withClaims('another subject', 'subject', () => ({ sub: 'somebody-else' })),
  withClaims('a subject with NUL', 'subject', () => ({ sub: 'somebody\0' })),
  withClaims('a subject with a lone surrogate', 'subject', () => ({ sub: '\ud800' })),
  withClaims('a list of subjects', 'subject', () => ({ sub: ['somebody'] })),
  withClaims('no subject', 'subject', () => ({ sub: undefined })),
  withClaims('the subject with a star added', 'subject', () => ({ sub: 'somebody*' })),
  ['a duplicate subject', 'form', () => signed(rs256, `${JSON.stringify(claims()).slice(0, -1)},"sub":"somebody"}`)],
  [
    'a duplicate issuer, once escaped',
    'form',
    () => signed(rs256, `{"\\u0069ss":"${stranger.url}",${JSON.stringify(claims()).slice(1)}`),
  ],
  [
    'a duplicate name in a nested object',
    'form',
    () => signed(rs256, `${JSON.stringify(claims()).slice(0, -1)},"act":{"sub":"a","sub":"b"}}`),
  ],
  [
    'a deeply nested issuer',
    'form',
    () => `${encode(rs256)}.${encode(`{"iss":${'['.repeat(5_900)}${']'.repeat(5_900)}}`)}.${encode('x')}`,
  ],
  [
    'a deeply nested claim',
    'form',
    () => signed(rs256, `${JSON.stringify(claims()).slice(0, -1)},"act":${'{"a":'.repeat(1_500)}1${'}'.repeat(1_501)}`),
  ],
  ['a list as claims', 'form', () => signed(rs256, [claims()])],
  ['null as claims', 'form', () => signed(rs256, 'null')],
  ['claims followed by text', 'form', () => signed(rs256, `${JSON.stringify(claims())} x`)],
]

const volatileHeaders = new Set(['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset'])

function visible({ status, headers, text }: Answer) {
  return { status, text, headers: [...headers].filter(([name]) => !volatileHeaders.has(name)) }
}

async function verdict(token: string): Promise<IdentityVerdict> {
  const path = `/v1/workspace/main/oidc/${identity.id}/test`
  const answer = await service.call<IdentityVerdict>('POST', path, { token: owner.session, body: { token } })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

type Reasons = { readonly reasons: readonly IdentityCheck[] }

let refusal: ReturnType<typeof visible> | undefined

describe('a forged token gets the same 401 as any other, with the reason in the audit trail and in `test`', () => {
  test.each([...headers, ...others, ...claimed])('%s (%s)', async (_what, check, make) => {
    // A new minute, so that every refusal is recorded despite the limit.
    service.clock.offsetMs += 60_000
    const token = await make()
    const answer = await tryFederation(service, token)
    expect(answer.status, answer.text).toBe(401)
    refusal ??= visible(answer)
    expect(visible(answer)).toEqual(refusal)
    const { body } = await service.call<AuditEntry[]>('GET', '/v1/workspace/main/audit?limit=1', {
      token: owner.session,
    })
    expect(body).toMatchObject([{ action: 'LOGIN', outcome: 'failure', entity: { type: 'oidc' } }])
    const { reasons } = (body[0]?.after ?? { reasons: [] }) as Reasons
    expect(reasons[0]?.check).toBe(check)
    if (token.length > 20) expect(JSON.stringify(body)).not.toContain(token)
    const { ok, checks } = await verdict(token)
    expect(ok).toBe(false)
    expect(checks.find((one) => !one.ok)?.check, JSON.stringify(checks)).toBe(check)
  })

  test('no other server is called', () => {
    expect(stranger.requests).toEqual([])
    expect([...new Set(issuer.requests)].sort()).toEqual(['/.well-known/openid-configuration', '/keys'])
  })

  test('an unknown workspace and one without identities respond in the same way', async () => {
    const body = { name: 'Quiet', slug: 'quiet' }
    await service.call('POST', '/v1/workspace', { token: owner.session, body })
    const token = await issuer.sign()
    for (const workspace of ['quiet', 'not-there', identity.id]) {
      expect(visible(await tryFederation(service, token, workspace))).toEqual(refusal)
    }
  })

  test('nothing of a forged token is logged', () => {
    const lines = service.logs.join('\n')
    expect(lines).not.toContain('"level":"error"')
    expect(lines).not.toContain('somebody-else')
    // Longer than a request id, which may start like a token by chance.
    expect(lines).not.toMatch(/eyJ[\w-]{14}/)
  })
})
