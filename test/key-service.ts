/**
 * Key services on loopback. Each checks what the vendor's documentation demands of a request, and quotes secrets in its
 * refusals, which must reach nobody.
 */
import {
  constants,
  createCipheriv,
  createDecipheriv,
  createHash,
  generateKeyPairSync,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
} from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { crc32c } from '../server/src/crc32c.ts'

type Answer = { status: number; body: unknown }
type Listening = { readonly url: string; stop(): void }

async function listenJson(answer: (request: IncomingMessage, body: string) => Answer): Promise<Listening> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { status, body } = answer(request, Buffer.concat(chunks).toString())
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = () => {
    server.close()
    server.closeAllConnections()
  }
  // A TCP listener's address is never a pipe's name.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop }
}

function seal(key: Buffer, plaintext: Buffer, context: Buffer): Buffer {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(context)
  return Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

function unseal(key: Buffer, bytes: Buffer, context: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 }).setAAD(context)
  decipher.setAuthTag(bytes.subarray(-16))
  return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()])
}

const bytesIn = (text: unknown) => Buffer.from(String(text), 'base64')
const refused = (status: number) => ({ status, body: { error: { message: 'hunter2', status: 'INVALID_ARGUMENT' } } })

type Change = (body: Record<string, unknown>) => void
type Service = Listening & {
  /** Method and path of each request. */
  readonly requests: string[]
  /** Changes each response of the key service before it is sent. */
  change: Change
}

function service(listening: Listening, state: { requests: string[]; change: Change }): Service {
  return Object.assign(state, listening)
}

/** Google's OAuth, metadata server and Cloud KMS on one port (cloud.google.com/kms/docs/reference/rest). */
export async function startGoogleKms(keyName: string): Promise<Service> {
  const key = randomBytes(32)
  const state = { requests: [] as string[], change: (() => undefined) as Change }

  function useKey(operation: string, fields: Record<string, unknown>): Answer {
    const field = operation === 'encrypt' ? 'plaintext' : 'ciphertext'
    const [input, context] = [bytesIn(fields[field]), bytesIn(fields.additionalAuthenticatedData)]
    // Int64 is text in JSON, and each checksum is of the bytes before base64.
    const isIntact =
      fields[`${field}Crc32c`] === String(crc32c(input)) &&
      fields.additionalAuthenticatedDataCrc32c === String(crc32c(context))
    if (!isIntact) return refused(400)
    if (operation === 'decrypt') {
      const plaintext = unseal(key, input, context)
      const body = { plaintext: plaintext.toString('base64'), plaintextCrc32c: String(crc32c(plaintext)) }
      return { status: 200, body: { ...body, usedPrimary: true, protectionLevel: 'SOFTWARE' } }
    }
    const ciphertext = seal(key, input, context)
    const body = {
      name: `${keyName}/cryptoKeyVersions/1`,
      ciphertext: ciphertext.toString('base64'),
      ciphertextCrc32c: String(crc32c(ciphertext)),
      verifiedPlaintextCrc32c: true,
      verifiedAdditionalAuthenticatedDataCrc32c: true,
      protectionLevel: 'SOFTWARE',
    }
    return { status: 200, body }
  }

  const listening = await listenJson((request, text) => {
    state.requests.push(`${request.method} ${request.url}`)
    if (request.url === '/computeMetadata/v1/instance/service-accounts/default/token') {
      // Without the header the metadata server refuses, so that a forged request cannot read a token.
      if (request.headers['metadata-flavor'] !== 'Google') return refused(403)
      return { status: 200, body: { access_token: 'ya29.machine', expires_in: 3599, token_type: 'Bearer' } }
    }
    if (request.url === '/token') {
      const form = new URLSearchParams(text)
      const isSigned = form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer'
      const claims = JSON.parse(bytesIn(form.get('assertion')?.split('.')[1]).toString())
      if (!isSigned || claims.aud !== 'https://oauth2.googleapis.com/token') return refused(400)
      return { status: 200, body: { access_token: `ya29.${claims.iss}`, expires_in: 3599, token_type: 'Bearer' } }
    }
    const [, operation] = /:(encrypt|decrypt)$/.exec(request.url ?? '') ?? []
    if (!/^Bearer ya29\../.test(request.headers.authorization ?? '')) return refused(401)
    if (request.method !== 'POST' || request.url !== `/v1/${keyName}:${operation}` || !operation) return refused(404)
    if (request.headers['content-type'] !== 'application/json') return refused(415)
    try {
      const answer = useKey(operation, JSON.parse(text))
      state.change(Object(answer.body))
      return answer
    } catch {
      return refused(400)
    }
  })
  return service(listening, state)
}

/** Microsoft's sign-in, instance metadata and a vault with the RSA key "coffer" (learn.microsoft.com/rest/api/keyvault). */
export async function startAzureVault(): Promise<Service & { rotate(): void }> {
  const pair = () => generateKeyPairSync('rsa', { modulusLength: 2048 })
  const versions = new Map([[createHash('md5').update('1').digest('hex'), pair()]])
  const newest = () => [...versions.keys()].at(-1)
  const padding = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' }
  const state = { requests: [] as string[], change: (() => undefined) as Change }

  function useKey(method: string, path: string, fields: Record<string, unknown>, origin: string): Answer {
    if (method === 'GET' && path === '/keys/coffer') {
      const kid = `${origin}/keys/coffer/${newest()}`
      return { status: 200, body: { key: { kid, kty: 'RSA', key_ops: ['wrapKey', 'unwrapKey'] } } }
    }
    const [, version = '', operation] = /^\/keys\/coffer\/([0-9a-f]{32})\/(wrapkey|unwrapkey)$/.exec(path) ?? []
    const found = versions.get(version)
    if (method !== 'POST' || !found) return refused(404)
    if (fields.alg !== 'RSA-OAEP-256' || !/^[\w-]+$/.test(String(fields.value))) return refused(400)
    const input = Buffer.from(String(fields.value), 'base64url')
    const output =
      operation === 'wrapkey'
        ? publicEncrypt({ key: found.publicKey, ...padding }, input)
        : privateDecrypt({ key: found.privateKey, ...padding }, input)
    const kid = `${origin}/keys/coffer/${version}`
    return { status: 200, body: { kid, value: output.toString('base64url') } }
  }

  const listening = await listenJson((request, text) => {
    const url = new URL(request.url ?? '', 'http://localhost')
    state.requests.push(`${request.method} ${url.pathname}`)
    const token = { token_type: 'Bearer', expires_in: 3599, access_token: 'eyJ.azure' }
    if (url.pathname === '/metadata/identity/oauth2/token') {
      const isAsked =
        request.headers.metadata === 'true' &&
        url.searchParams.get('api-version') === '2018-02-01' &&
        url.searchParams.get('resource') === 'https://vault.azure.net'
      return isAsked ? { status: 200, body: token } : refused(400)
    }
    if (url.pathname === '/tenant/oauth2/v2.0/token') {
      const form = new URLSearchParams(text)
      const isAsked =
        form.get('grant_type') === 'client_credentials' &&
        form.get('client_id') === 'application' &&
        form.get('client_secret') === 'secret' &&
        form.get('scope') === 'https://vault.azure.net/.default'
      return isAsked ? { status: 200, body: token } : refused(401)
    }
    if (request.headers.authorization !== 'Bearer eyJ.azure') return refused(401)
    if (url.searchParams.get('api-version') !== '7.4') return refused(400)
    try {
      const origin = `http://${request.headers.host}`
      const answer = useKey(request.method ?? '', url.pathname, text === '' ? {} : JSON.parse(text), origin)
      state.change(Object(answer.body))
      return answer
    } catch {
      return refused(400)
    }
  })
  const rotate = () =>
    void versions.set(
      createHash('md5')
        .update(String(versions.size + 1))
        .digest('hex'),
      pair(),
    )
  return Object.assign(service(listening, state), { rotate })
}
