/** A master key wrapped by AWS KMS or a transit engine: created once, unwrapped later, and refused if it was changed. */
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { key, load, memoryWrapped, refusalOf, spellings } from '../../../test/master-key.ts'

const credentials = {
  accessKeyId: 'AKIDTEST',
  secretAccessKey: 'secret/test+key',
  sessionToken: 'session',
}

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

type Answer = { status: number; body: unknown }

async function listen(answer: (request: IncomingMessage, body: string) => Answer): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { status, body } = answer(request, Buffer.concat(chunks).toString())
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stops.push(() => server.close())
  // A TCP listener's address is never a pipe's name.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const fromBase64 = (text: string) => Buffer.from(text, 'base64')

function seal(serviceKey: Buffer, plaintext: Buffer, context: string): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', serviceKey, iv).setAAD(Buffer.from(context))
  return Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]).toString('base64')
}

function unseal(serviceKey: Buffer, sealed: string, context: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', serviceKey, bytes.subarray(0, 12), { authTagLength: 16 })
  decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-16))
  return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()])
}

type SignedRequest = { method: string; url: string; headers: Record<string, unknown>; body: string }

/** Signature Version 4 as specified, for a request that already names its signed headers. */
function signatureOf(request: SignedRequest, secret: string): string {
  const [, scope = '', signedHeaders = ''] =
    /Credential=[^/]+\/([^,]+), SignedHeaders=([^,]+)/.exec(String(request.headers.authorization)) ?? []
  const [path = '', query = ''] = request.url.split('?')
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
  const canonical = [
    request.method,
    path,
    query.split('&').sort().join('&'),
    ...signedHeaders.split(';').map((name) => `${name}:${String(request.headers[name]).trim().replace(/ +/g, ' ')}`),
    '',
    signedHeaders,
    sha256(request.body),
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n')
  const signingKey = scope
    .split('/')
    .reduce((hmacKey, part) => createHmac('sha256', hmacKey).update(part).digest(), Buffer.from(`AWS4${secret}`))
  return createHmac('sha256', signingKey).update(text).digest('hex')
}

test('the signature check of this test agrees with the example in the AWS documentation', () => {
  const authorization =
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature='
  const headers = {
    authorization,
    'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
    host: 'iam.amazonaws.com',
    'x-amz-date': '20150830T123600Z',
  }
  const request = { method: 'GET', url: '/?Action=ListUsers&Version=2010-05-08', headers, body: '' }
  expect(signatureOf(request, 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY')).toBe(
    '5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
  )
})

/** Responds like AWS KMS, but first recomputes the signature and rejects a request that does not match it. */
async function listenKms(targets: string[] = []): Promise<string> {
  const serviceKey = randomBytes(32)
  return listen((request, body) => {
    const headers = request.headers
    const target = String(headers['x-amz-target'])
    targets.push(target)
    const signed = signatureOf({ method: 'POST', url: request.url ?? '', headers, body }, credentials.secretAccessKey)
    const authorization = String(headers.authorization)
    const mustSign = ['content-type', 'host', 'x-amz-date', 'x-amz-security-token', 'x-amz-target'].join(';')
    const isSigned =
      request.method === 'POST' &&
      authorization.startsWith('AWS4-HMAC-SHA256 Credential=AKIDTEST/') &&
      authorization.includes('/eu-central-1/kms/aws4_request, ') &&
      authorization.includes(`SignedHeaders=${mustSign},`) &&
      authorization.endsWith(`Signature=${signed}`) &&
      headers['x-amz-security-token'] === 'session' &&
      headers['content-type'] === 'application/x-amz-json-1.1'
    if (!isSigned) return { status: 403, body: { __type: 'InvalidSignatureException', message: spellings[0] } }

    const fields = JSON.parse(body)
    const context = JSON.stringify(fields.EncryptionContext)
    if (fields.KeyId !== 'alias/coffer') return { status: 400, body: { __type: 'NotFoundException' } }
    if (context !== '{"coffer":"master-key"}') return { status: 400, body: { __type: 'ValidationException' } }
    try {
      return target === 'TrentService.Encrypt'
        ? { status: 200, body: { CiphertextBlob: seal(serviceKey, fromBase64(fields.Plaintext), context) } }
        : { status: 200, body: { Plaintext: unseal(serviceKey, fields.CiphertextBlob, context).toString('base64') } }
    } catch {
      return { status: 400, body: { __type: 'InvalidCiphertextException' } }
    }
  })
}

describe('AWS KMS', () => {
  const source = (endpoint: string) =>
    ({ kind: 'aws-kms', keyId: 'alias/coffer', region: 'eu-central-1', endpoint, credentials }) as const

  test('wraps a new key on the first start and only unwraps it on later starts', async () => {
    const targets: string[] = []
    const endpoint = await listenKms(targets)
    const wrapped = memoryWrapped()
    const first = await load(source(endpoint), { wrapped })
    expect(first.length).toBe(32)
    expect(wrapped.stored()).toMatch(/^aws-kms:/)
    expect(wrapped.stored()).not.toContain(Buffer.from(first).toString('base64').slice(0, 12))

    for (const mayCreate of [false, true]) {
      expect(await load(source(endpoint), { wrapped, mayCreate })).toEqual(first)
    }
    expect(targets.map((target) => target.split('.')[1])).toEqual(['Encrypt', 'Decrypt', 'Decrypt', 'Decrypt'])
  })

  test('gives nodes that start concurrently the same key', async () => {
    const endpoint = await listenKms()
    const wrapped = memoryWrapped()
    const keys = await Promise.all(Array.from({ length: 5 }, () => load(source(endpoint), { wrapped })))
    expect(new Set(keys.map((each) => Buffer.from(each).toString('hex'))).size).toBe(1)
  })

  test('is not asked for a new key when the database already has keys', async () => {
    const targets: string[] = []
    const endpoint = await listenKms(targets)
    const wrapped = memoryWrapped()
    const message = await refusalOf(load(source(endpoint), { wrapped, mayCreate: false }))
    expect(message).toContain('No master key wrapped by AWS KMS is stored')
    expect([wrapped.stored(), targets]).toEqual([undefined, []])
  })

  test.each([
    ['wrong credentials', { credentials: { ...credentials, secretAccessKey: 'wrong' } }, 'status 403'],
    ['another region', { region: 'us-east-1' }, 'status 403'],
    ['an unknown key', { keyId: 'alias/other' }, 'status 400'],
    ['no credentials', { credentials: undefined }, 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'],
    [
      'an access key id that is not a valid header',
      { credentials: { ...credentials, accessKeyId: 'AKID\u2026' } },
      'AWS_ACCESS_KEY_ID contains characters that an HTTP header cannot carry',
    ],
    [
      'a session token with a line break',
      { credentials: { ...credentials, sessionToken: 'one\ntwo' } },
      'AWS_SESSION_TOKEN contains characters that an HTTP header cannot carry',
    ],
    ['an invalid region', { region: 'evil.test/' }, 'must look like "eu-central-1"'],
    ['an unreachable endpoint', { endpoint: 'http://127.0.0.1:1' }, '127.0.0.1 could not be reached (ECONNREFUSED)'],
    ['an endpoint that is not a URL', { endpoint: 'kms' }, 'must be a plain https URL'],
  ])('is refused with %s', async (_, change, reason) => {
    const endpoint = await listenKms()
    const wrapped = memoryWrapped()
    const changed = { ...source(endpoint), ...change }
    expect(await refusalOf(load(changed, { wrapped }))).toContain(reason)
    expect(wrapped.stored()).toBeUndefined()
  })

  test('refuses a stored key that was changed', async () => {
    const endpoint = await listenKms()
    const wrapped = memoryWrapped()
    await load(source(endpoint), { wrapped })
    const changed = memoryWrapped(wrapped.stored()?.replace(/^(aws-kms:.{30})./, (_, start) => `${start}~`))
    expect(await refusalOf(load(source(endpoint), { wrapped: changed }))).toContain('status 400')
  })

  test('reports a stored key that was wrapped by another service', async () => {
    const wrapped = memoryWrapped('transit:vault:v1:abc')
    const message = await refusalOf(load(source('http://127.0.0.1:1'), { wrapped }))
    expect(message).toContain('was not wrapped by AWS KMS')
  })
})

describe('the transit engine', () => {
  const source = (address: string) =>
    ({ kind: 'transit', address, mount: 'team a/transit/', key: 'coffer', token: 'token', namespace: 'ns' }) as const

  async function listenTransit(): Promise<string> {
    const serviceKey = randomBytes(32)
    return listen((request, body) => {
      const { 'x-vault-token': token, 'x-vault-namespace': namespace } = request.headers
      if (token !== 'token' || namespace !== 'ns') return { status: 403, body: { errors: [`denied ${spellings[0]}`] } }
      const fields = JSON.parse(body)
      if (request.method === 'POST' && request.url === '/base/v1/team%20a/transit/encrypt/coffer') {
        const sealed = seal(serviceKey, Buffer.from(fields.plaintext, 'base64'), '')
        return { status: 200, body: { data: { ciphertext: `vault:v1:${sealed}`, key_version: 1 } } }
      }
      if (request.method === 'POST' && request.url === '/base/v1/team%20a/transit/decrypt/coffer') {
        const opened = unseal(serviceKey, fields.ciphertext.replace(/^vault:v1:/, ''), '')
        return { status: 200, body: { data: { plaintext: opened.toString('base64') } } }
      }
      return { status: 404, body: { errors: [] } }
    })
  }

  test('wraps a new key on the first start and unwraps it on later starts', async () => {
    const address = `${await listenTransit()}/base/`
    const wrapped = memoryWrapped()
    const [first, second] = await Promise.all([load(source(address), { wrapped }), load(source(address), { wrapped })])
    expect(first.length).toBe(32)
    expect(second).toEqual(first)
    expect(wrapped.stored()).toMatch(/^transit:vault:v1:/)
    expect(await load(source(address), { wrapped, mayCreate: false })).toEqual(first)
  })

  test.each([
    ['a wrong token', { token: 'wrong' }, 'status 403'],
    ['an unknown mount', { mount: 'other' }, 'status 404'],
    ['an invalid address', { address: 'vault' }, 'must be a plain https URL'],
    ['a token that is not a valid header', { token: 'a\nb' }, 'A header of the request to 127.0.0.1 is not valid'],
  ])('is refused with %s', async (_, change, reason) => {
    const wrapped = memoryWrapped()
    const changed = { ...source(`${await listenTransit()}/base`), ...change }
    expect(await refusalOf(load(changed, { wrapped }))).toContain(reason)
    expect(wrapped.stored()).toBeUndefined()
  })

  test.each([
    ['text that is not JSON', 'not json', 'holds no usable master key'],
    ['JSON without the field', { data: null }, 'holds no usable master key'],
    ['a key of the wrong length', { data: { plaintext: key.subarray(1).toString('base64') } }, 'exactly 32 bytes'],
    ['a key of zeros', { data: { plaintext: Buffer.alloc(32).toString('base64') } }, 'is a single repeated byte'],
  ])('is refused when its response is %s', async (_, body, reason) => {
    const address = await listen(() => ({ status: 200, body }))
    const wrapped = memoryWrapped('transit:vault:v1:abc')
    expect(await refusalOf(load(source(address), { wrapped, mayCreate: false }))).toContain(reason)
  })
})
