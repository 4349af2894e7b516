/** JWTs that must never be accepted, derived from a genuine signer and valid claims. */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { type JwtClaims, signJwt } from '../server/src/crypto/jwt.ts'
import { type Signer, signBytes } from '../server/src/crypto/signing.ts'

type Forgery = readonly [name: string, jwt: string]

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const ofText = (text: string) => Buffer.from(text).toString('base64url')

export function forgeJwts(signer: Signer, claims: JwtClaims): Forgery[] {
  return [
    ...genuinelySigned(signer, claims),
    ...withoutSignature(signer, claims),
    ...signedByOthers(signer, claims),
    ...mangled(signer, claims),
  ]
}

/** Signed with the service's own key: rejected for their content. */
function genuinelySigned(signer: Signer, claims: JwtClaims): Forgery[] {
  const header = { alg: 'EdDSA', typ: 'JWT', kid: signer.id }
  const signed = (head: unknown, payload: unknown = claims) => {
    const text = `${encode(head)}.${typeof payload === 'string' ? ofText(payload) : encode(payload)}`
    return `${text}.${signBytes(signer, Buffer.from(text)).toString('base64url')}`
  }
  const { exp, iat, iss } = claims
  const claimSets: [name: string, change: Record<string, unknown>][] = [
    ['another issuer', { iss: 'https://evil.example' }],
    ['an issuer with a trailing slash', { iss: `${iss}/` }],
    ['an issuer in upper case', { iss: iss.toUpperCase() }],
    ['a list of issuers', { iss: [iss] }],
    ['no issuer', { iss: undefined }],
    ['exp in the past', { exp: iat - 1 }],
    ['exp long ago', { exp: 1 }],
    ['exp 0', { exp: 0 }],
    ['a negative exp', { exp: -exp }],
    ['no exp', { exp: undefined }],
    ['exp null', { exp: null }],
    ['exp as a string', { exp: String(exp) }],
    ['iat far in the future', { iat: iat + 3_600, exp: exp + 3_600 }],
    ['iat and exp in milliseconds', { iat: iat * 1_000, exp: exp * 1_000 }],
    ['no iat', { iat: undefined }],
    ['iat as a string', { iat: String(iat) }],
    ['another kind', { kind: 'session' }],
    ['no kind', { kind: undefined }],
    ['a list of kinds', { kind: ['token'] }],
    ['no subject', { sub: undefined }],
    ['an empty subject', { sub: '' }],
    ['a list of subjects', { sub: [claims.sub] }],
    ['an unknown subject', { sub: '00000000-0000-7000-8000-000000000000' }],
    ['a subject with SQL injection', { sub: `${claims.sub}' or '1'='1` }],
    ['a subject in upper case', { sub: claims.sub.toUpperCase() }],
    ['no workspace', { workspace: undefined }],
    ['an empty workspace', { workspace: '' }],
    ['an unknown workspace', { workspace: '00000000-0000-7000-8000-000000000000' }],
    ['the subject as the workspace', { workspace: claims.sub, sub: claims.workspace }],
    ['no generation', { generation: undefined }],
    ['a generation as a string', { generation: String(claims.generation) }],
    ['a later generation', { generation: claims.generation + 1 }],
    ['an earlier generation', { generation: claims.generation - 1 }],
    ['the generation 0', { generation: 0 }],
  ]
  const headers: [name: string, head: unknown][] = [
    ['no type', { ...header, typ: undefined }],
    ['the type jwt', { ...header, typ: 'jwt' }],
    ['the type at+jwt', { ...header, typ: 'at+jwt' }],
    ['the type JWS', { ...header, typ: 'JWS' }],
    ['no algorithm', { ...header, alg: undefined }],
    ['the algorithm eddsa', { ...header, alg: 'eddsa' }],
    ['the algorithm Ed25519', { ...header, alg: 'Ed25519' }],
    ['the algorithm ES256', { ...header, alg: 'ES256' }],
    ['a list of algorithms', { ...header, alg: ['EdDSA'] }],
    ['crit', { ...header, crit: ['exp'] }],
    ['b64', { ...header, b64: false }],
    ['zip', { ...header, zip: 'DEF' }],
    ['cty', { ...header, cty: 'JWT' }],
    ['an embedded jwk of the service', { ...header, jwk: signer.publicKey.export({ format: 'jwk' }) }],
    ['a jku of the service', { ...header, jku: `${iss}/jwks.json` }],
    ['an unknown field', { ...header, x: 1 }],
    ['no kid', { alg: 'EdDSA', typ: 'JWT' }],
    ['an empty kid', { ...header, kid: '' }],
    ['an unknown kid', { ...header, kid: '01890000-0000-7000-8000-000000000000' }],
    ['a kid in upper case', { ...header, kid: `X${signer.id.toUpperCase()}` }],
    ['a list of kids', { ...header, kid: [signer.id] }],
    ['a kid that is an object', { ...header, kid: { toString: signer.id } }],
    ['a kid of null', { ...header, kid: null }],
    ['a kid with a path', { ...header, kid: `../../${signer.id}` }],
    ['a kid that is a device path', { ...header, kid: '/dev/null' }],
    ['a kid with SQL injection', { ...header, kid: `${signer.id}' or '1'='1` }],
    ['a kid with NUL', { ...header, kid: `${signer.id}\0` }],
    ['a kid with a space', { ...header, kid: ` ${signer.id}` }],
    ['the kid __proto__', { ...header, kid: '__proto__' }],
    ['the kid constructor', { ...header, kid: 'constructor' }],
    ['a header that is a list', [header]],
    ['a header that is null', null],
    ['a header that is text', 'EdDSA'],
  ]
  const payloads: [name: string, payload: unknown][] = [
    ['a payload that is a list', [claims]],
    ['a payload that is null', null],
    ['an empty payload', {}],
    ['a payload that is not JSON', `{${JSON.stringify(claims)}`],
    ['a payload followed by text', `${JSON.stringify(claims)} x`],
    ['a payload that is a number', 1],
  ]
  return [
    ...claimSets.map(([name, change]) => [name, signed(header, { ...claims, ...change })] as const),
    ...headers.map(([name, head]) => [`${name}, in the header`, signed(head)] as const),
    ...payloads.map(([name, payload]) => [name, signed(header, payload)] as const),
  ]
}

function withoutSignature(signer: Signer, claims: JwtClaims): Forgery[] {
  const genuine = signJwt(signer, claims)
  const [, payload = '', signature = ''] = genuine.split('.')
  const algorithms = ['none', 'None', 'NONE', 'nOnE', '', 'null']
  return algorithms.flatMap((alg) => {
    const head = encode({ alg, typ: 'JWT', kid: signer.id })
    return [
      [`algorithm "${alg}", empty signature`, `${head}.${payload}.`],
      [`algorithm "${alg}", two parts`, `${head}.${payload}`],
      [`algorithm "${alg}", arbitrary signature`, `${head}.${payload}.AAAA`],
      [`algorithm "${alg}", the genuine signature`, `${head}.${payload}.${signature}`],
    ] as const
  })
}

function signedByOthers(signer: Signer, claims: JwtClaims): Forgery[] {
  const payload = encode(claims)
  const { publicKey } = signer
  const pem = publicKey.export({ format: 'pem', type: 'spki' }).toString()
  const der = publicKey.export({ format: 'der', type: 'spki' })
  const jwk = publicKey.export({ format: 'jwk' })
  const secrets: [name: string, secret: string | Buffer][] = [
    ['raw', der.subarray(-32)],
    ['DER', der],
    ['PEM', pem],
    ['PEM without its last newline', pem.trimEnd()],
    ['JWK', JSON.stringify(jwk)],
    ['base64url', jwk.x ?? ''],
    ['empty', ''],
    ['kid', signer.id],
  ]
  const hmac = secrets.flatMap(([name, secret]) =>
    (['HS256', 'HS384', 'HS512', 'EdDSA'] as const).map((alg) => {
      const text = `${encode({ alg, typ: 'JWT', kid: signer.id })}.${payload}`
      const digest = createHmac(alg === 'EdDSA' ? 'sha512' : `sha${alg.slice(2)}`, secret)
        .update(text)
        .digest('base64url')
      return [`${alg} keyed by the public key (${name})`, `${text}.${digest}`] as const
    }),
  )

  const attacker = generateKeyPairSync('ed25519')
  const attackerJwk = attacker.publicKey.export({ format: 'jwk' })
  const byAttacker = (head: object) => {
    const text = `${encode(head)}.${payload}`
    return `${text}.${sign(null, Buffer.from(text), attacker.privateKey).toString('base64url')}`
  }
  const own = { alg: 'EdDSA', typ: 'JWT' }
  const embedded: [name: string, head: object][] = [
    ['another key under the same kid', { ...own, kid: signer.id }],
    ['another key under its own kid', { ...own, kid: 'attacker' }],
    ['an embedded jwk', { ...own, kid: signer.id, jwk: attackerJwk }],
    ['an embedded jwk, no kid', { ...own, jwk: attackerJwk }],
    ['an embedded jwk as the kid', { ...own, kid: attackerJwk }],
    ['a jku', { ...own, kid: 'attacker', jku: 'http://127.0.0.1:1/jwks.json' }],
    ['an x5u', { ...own, kid: 'attacker', x5u: 'http://127.0.0.1:1/cert.pem' }],
    [
      'an x5c',
      { ...own, kid: signer.id, x5c: [attacker.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')] },
    ],
  ]

  const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const text = `${encode({ alg: 'ES256', typ: 'JWT', kid: signer.id })}.${payload}`
  const ecdsa = sign('sha256', Buffer.from(text), { key: elliptic.privateKey, dsaEncoding: 'ieee-p1363' })
  return [
    ...hmac,
    ...embedded.map(([name, head]) => [name, byAttacker(head)] as const),
    ['ES256 by another key', `${text}.${ecdsa.toString('base64url')}`],
  ]
}

/** A genuine JWT with a part changed. */
function mangled(signer: Signer, claims: JwtClaims): Forgery[] {
  const genuine = signJwt(signer, claims)
  const [head = '', payload = '', signature = ''] = genuine.split('.')
  const bytes = Buffer.from(signature, 'base64url')
  const altered = (change: Partial<Record<keyof JwtClaims, unknown>>) =>
    `${head}.${encode({ ...claims, ...change })}.${signature}`
  const doubled = `${JSON.stringify(claims).slice(0, -1)},"sub":"${claims.workspace}"}`
  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  const scalar = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`) + order
  const malleable = Buffer.concat([
    bytes.subarray(0, 32),
    Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex').reverse(),
  ])
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = alphabet.indexOf(signature.slice(-1))
  // The last of 86 characters carries only two bits, so sixteen characters decode to the same signature.
  const spellings = [1, 7, 15].map((rest) => signature.slice(0, -1) + alphabet.charAt(last + rest))
  return [
    ['the signature cut off', `${head}.${payload}`],
    ['an empty signature', `${head}.${payload}.`],
    ['the signature shorter by one character', genuine.slice(0, -1)],
    ['the signature shorter by two characters', genuine.slice(0, -2)],
    ['half of the signature', `${head}.${payload}.${signature.slice(0, 43)}`],
    ['the signature longer by one character', `${genuine}A`],
    [
      'the signature longer by one byte',
      `${head}.${payload}.${Buffer.concat([bytes, Buffer.alloc(1)]).toString('base64url')}`,
    ],
    ['the signature padded by =', `${genuine}=`],
    ['the signature padded by ==', `${genuine}==`],
    ...spellings.map(
      (spelling) => ['another base64url encoding of the signature', `${head}.${payload}.${spelling}`] as const,
    ),
    ['a percent sign in the signature', `${head}.${payload}.%${signature}`],
    ['the signature in hex', `${head}.${payload}.${bytes.toString('hex')}`],
    ['a malleable signature (scalar plus the group order)', `${head}.${payload}.${malleable.toString('base64url')}`],
    ['a signature of zeros', `${head}.${payload}.${Buffer.alloc(64).toString('base64url')}`],
    ['the header padded', `${head}=.${payload}.${signature}`],
    ['the payload padded', `${head}.${payload}==.${signature}`],
    ['a fourth part', `${genuine}.${signature}`],
    ['an empty fourth part', `${genuine}.`],
    ['an empty first part', `.${genuine}`],
    ['five parts', `${head}.${payload}.${payload}.${payload}.${signature}`],
    ['parts in another order', `${payload}.${head}.${signature}`],
    ['no payload', `${head}..${signature}`],
    ['only dots', 'ey..'],
    ['only the prefix', 'ey'],
    ['another subject', altered({ sub: claims.workspace })],
    ['another workspace', altered({ workspace: claims.sub })],
    ['a later exp', altered({ exp: claims.exp + 900 })],
    ['another generation', altered({ generation: claims.generation + 1 })],
    ['an additional claim', `${head}.${encode({ ...claims, admin: true })}.${signature}`],
    ['a duplicate claim', `${head}.${ofText(doubled)}.${signature}`],
    [
      'the genuine signature of other claims',
      `${head}.${payload}.${signJwt(signer, { ...claims, iat: claims.iat - 1 }).split('.')[2]}`,
    ],
  ]
}
