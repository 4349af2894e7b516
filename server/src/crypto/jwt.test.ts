import { createPublicKey, verify } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { forgeJwts } from '../../../test/jwt-forgery.ts'
import { newKey } from './envelope.ts'
import { newId } from './id.ts'
import { jwtLifetimeSeconds, signJwt, verifyJwt } from './jwt.ts'
import { createRootKey, masterWrapKey } from './keyring.ts'
import { createSigningKey, openSigningKey, type Signer } from './signing.ts'

const root = createRootKey(newId(), masterWrapKey(newKey())).root
const newSigner = () => openSigningKey(createSigningKey(newId(), 'jwt', root), root)
const signer = newSigner()
const ring = new Map<string, Signer>([[signer.id, signer]])
const issuer = 'https://coffer.example'
const nowMs = 1_800_000_000_000
const iat = nowMs / 1000
const claims = {
  iss: issuer,
  sub: newId(),
  kind: 'token',
  workspace: newId(),
  generation: 2,
  iat,
  exp: iat + jwtLifetimeSeconds,
} as const

const check = (jwt: string, atMs = nowMs, keys: ReadonlyMap<string, Signer> = ring) =>
  verifyJwt(jwt, (id) => keys.get(id), { issuer, nowMs: atMs })

test('an issued JWT is EdDSA with the kid in its header, and verifies to its claims', () => {
  const jwt = signJwt(signer, claims)
  const [head = '', payload = '', signature = ''] = jwt.split('.')
  expect(JSON.parse(Buffer.from(head, 'base64url').toString())).toEqual({ alg: 'EdDSA', typ: 'JWT', kid: signer.id })
  expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toEqual(claims)
  const publicKey = createPublicKey(signer.privateKey)
  expect(verify(null, Buffer.from(`${head}.${payload}`), publicKey, Buffer.from(signature, 'base64url'))).toBe(true)
  expect(check(jwt)).toEqual(claims)
})

test('a JWT is valid until one millisecond before it expires', () => {
  const jwt = signJwt(signer, claims)
  expect(check(jwt, claims.exp * 1000 - 1)).toEqual(claims)
  expect(check(jwt, claims.exp * 1000)).toBeUndefined()
  expect(check(jwt, claims.exp * 1000 + 1)).toBeUndefined()
})

test('a JWT is accepted by a clock up to one minute behind the issuer, and no more', () => {
  const jwt = signJwt(signer, claims)
  expect(check(jwt, nowMs - 60_000)).toEqual(claims)
  expect(check(jwt, nowMs - 60_001)).toBeUndefined()
})

test('a JWT verifies only with the key named in its header', () => {
  const next = newSigner()
  const both = new Map([...ring, [next.id, next]])
  expect(check(signJwt(signer, claims), nowMs, both)).toEqual(claims)
  expect(check(signJwt(next, claims), nowMs, both)).toEqual(claims)
  expect(check(signJwt(next, claims))).toBeUndefined()
  expect(check(signJwt({ ...next, id: signer.id }, claims), nowMs, both)).toBeUndefined()
})

describe('refuses', () => {
  // Rejected by the stored row, not by the JWT itself: tested through HTTP.
  const byRow =
    /^(an empty subject|an unknown subject|a subject |an empty workspace|an unknown workspace|the subject as|a later generation|an earlier generation|the generation 0)/
  const forgeries = forgeJwts(signer, claims).filter(([name]) => !byRow.test(name))

  test.each(forgeries)('%s', (_name, jwt) => {
    expect(check(jwt)).toBeUndefined()
  })

  test.each(['', '.', '..', '...', 'a.b.c', '{}.{}.{}', 'bnVsbA.bnVsbA.bnVsbA', 'ey'.repeat(5_000)])('%j', (jwt) => {
    expect(check(jwt)).toBeUndefined()
  })

  test('a JWT with any one character changed', () => {
    const jwt = signJwt(signer, claims)
    for (let at = 0; at < jwt.length; at++) {
      const other = jwt.charAt(at) === 'A' ? 'B' : 'A'
      expect(check(jwt.slice(0, at) + other + jwt.slice(at + 1)), `${at}`).toBeUndefined()
    }
  })

  test('every truncated JWT', () => {
    const jwt = signJwt(signer, claims)
    for (let length = 0; length < jwt.length; length++) expect(check(jwt.slice(0, length))).toBeUndefined()
  })
})
