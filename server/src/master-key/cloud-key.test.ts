/** A master key wrapped by Google Cloud KMS or Azure Key Vault, through servers that check each request. */
import { generateKeyPairSync } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { startAzureVault, startGoogleKms } from '../../../test/key-service.ts'
import { load, memoryWrapped, refusalOf } from '../../../test/master-key.ts'
import { createOutbound, type Outbound } from '../outbound.ts'
import { parseAllowList } from '../outbound-allow.ts'

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

/** Sends requests for the vendor's sign-in host to loopback, since its address is fixed. */
function through(url: string): Outbound {
  const { request } = createOutbound({ allow: parseAllowList('') })
  return {
    request: (asked) =>
      request({ ...asked, url: asked.url.replace(/^https:\/\/(oauth2\.googleapis|login\.microsoftonline)\.com/, url) }),
  }
}

const keyName = 'projects/example/locations/europe-west3/keyRings/ring/cryptoKeys/coffer'
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const account = { email: 'coffer@example.iam.gserviceaccount.com', project: 'example', keyId: 'k1', key: privateKey }

describe('Google Cloud KMS', () => {
  async function start() {
    const kms = await startGoogleKms(keyName)
    stops.push(kms.stop)
    const metadataHost = kms.url.replace('http://', '')
    const source = { kind: 'google-kms', keyName, account: undefined, endpoint: kms.url, metadataHost } as const
    return { kms, source, outbound: through(kms.url) }
  }

  test.each([
    ['the identity of the machine', undefined, 'GET /computeMetadata/v1/instance/service-accounts/default/token'],
    ['a service account', account, 'POST /token'],
  ])('wraps a new key on the first start and unwraps it later, signed in with %s', async (_, signedIn, asked) => {
    const { kms, source, outbound } = await start()
    const wrapped = memoryWrapped()
    const options = { wrapped, outbound }
    const first = await load({ ...source, account: signedIn }, options)
    expect(first.length).toBe(32)
    expect(wrapped.stored()).toMatch(/^google-kms:/)
    expect(wrapped.stored()).not.toContain(Buffer.from(first).toString('base64').slice(0, 12))
    expect(await load({ ...source, account: signedIn }, { ...options, mayCreate: false })).toEqual(first)
    const call = (operation: string) => [asked, `POST /v1/${keyName}:${operation}`]
    expect(kms.requests).toEqual([...call('encrypt'), ...call('decrypt'), ...call('decrypt')])
  })

  test.each([
    ['an unknown key', { keyName: keyName.replace('coffer', 'other') }, 'Google Cloud KMS refused the request'],
    ['an unreachable endpoint', { endpoint: 'http://127.0.0.1:1' }, '127.0.0.1 could not be reached (ECONNREFUSED)'],
    ['no metadata server', { metadataHost: '127.0.0.1:1' }, 'the metadata server of Google Cloud'],
    ['an endpoint that is not a URL', { endpoint: 'kms' }, 'must be a plain https URL'],
  ])('is refused with %s', async (_, change, reason) => {
    const { source, outbound } = await start()
    const wrapped = memoryWrapped()
    const message = await refusalOf(load({ ...source, ...change }, { wrapped, outbound }))
    expect(message).toContain(reason)
    expect(message).not.toContain('hunter2')
    expect(wrapped.stored()).toBeUndefined()
  })

  test.each([
    ['the service did not check the plaintext', { verifiedPlaintextCrc32c: false }, 'damaged on its way'],
    ['the service did not check the context', { verifiedAdditionalAuthenticatedDataCrc32c: false }, 'damaged'],
    ['the ciphertext has another checksum', { ciphertextCrc32c: '1' }, 'damaged on its way'],
    ['the ciphertext has no checksum', { ciphertextCrc32c: undefined }, 'holds no usable master key'],
  ])('stores nothing if %s', async (_, change, reason) => {
    const { kms, source, outbound } = await start()
    kms.change = (body) => Object.assign(body, change)
    const wrapped = memoryWrapped()
    expect(await refusalOf(load(source, { wrapped, outbound }))).toContain(reason)
    expect(wrapped.stored()).toBeUndefined()
  })

  test('refuses a plaintext with another checksum, and a stored key that was changed', async () => {
    const { kms, source, outbound } = await start()
    const wrapped = memoryWrapped()
    await load(source, { wrapped, outbound })
    kms.change = (body) => Object.assign(body, { plaintextCrc32c: '1' })
    expect(await refusalOf(load(source, { wrapped, outbound }))).toContain('damaged on its way')
    kms.change = () => undefined
    const changed = memoryWrapped(wrapped.stored()?.replace(/.{4}$/, 'AAAA'))
    expect(await refusalOf(load(source, { wrapped: changed, outbound }))).toContain('status 400')
  })
})

describe('Azure Key Vault', () => {
  const application = { tenantId: 'tenant', clientId: 'application', clientSecret: 'secret' }

  async function start() {
    const vault = await startAzureVault()
    stops.push(vault.stop)
    const place = { vault: vault.url, key: 'coffer', identityHost: vault.url }
    const source = { kind: 'azure-key-vault', ...place, application: undefined } as const
    return { vault, source, outbound: through(vault.url) }
  }

  test.each([
    ['the managed identity of the machine', undefined, 'GET /metadata/identity/oauth2/token'],
    ['an application', application, 'POST /tenant/oauth2/v2.0/token'],
  ])('wraps a new key on the first start and unwraps it later, signed in with %s', async (_, signedIn, asked) => {
    const { vault, source, outbound } = await start()
    const wrapped = memoryWrapped()
    const first = await load({ ...source, application: signedIn }, { wrapped, outbound })
    expect(first.length).toBe(32)
    expect(wrapped.stored()).toMatch(/^azure-key-vault:[0-9a-f]{32}\.[\w-]+$/)
    expect(vault.requests[0]).toBe(asked)
    expect(await load({ ...source, application: signedIn }, { wrapped, outbound, mayCreate: false })).toEqual(first)
  })

  test('opens a key with the version that wrapped it, after the key was rotated in the vault', async () => {
    const { vault, source, outbound } = await start()
    const wrapped = memoryWrapped()
    const first = await load(source, { wrapped, outbound })
    vault.rotate()
    expect(await load(source, { wrapped, outbound })).toEqual(first)
    const next = memoryWrapped()
    await load(source, { wrapped: next, outbound })
    expect(next.stored()?.slice(0, 48)).not.toBe(wrapped.stored()?.slice(0, 48))
  })

  test.each([
    ['an unknown key', { key: 'other' }, 'Azure Key Vault refused the request for the master key with status 404'],
    ['a wrong secret', { application: { ...application, clientSecret: 'wrong' } }, 'Microsoft Entra ID refused'],
    ['an unknown version', { version: '0'.repeat(32) }, 'status 404'],
    ['no managed identity', { identityHost: 'http://127.0.0.1:1' }, 'the managed identity of Azure'],
  ])('is refused with %s', async (_, change, reason) => {
    const { source, outbound } = await start()
    const wrapped = memoryWrapped()
    const message = await refusalOf(load({ ...source, ...change }, { wrapped, outbound }))
    expect(message).toContain(reason)
    expect(message).not.toContain('hunter2')
    expect(wrapped.stored()).toBeUndefined()
  })

  test('refuses a response about another version, and a stored key that was changed', async () => {
    const { vault, source, outbound } = await start()
    const wrapped = memoryWrapped()
    await load(source, { wrapped, outbound })
    vault.change = (body) => Object.assign(body, { kid: `${vault.url}/keys/coffer/${'0'.repeat(32)}` })
    expect(await refusalOf(load(source, { wrapped, outbound }))).toContain('holds no usable master key')
    vault.change = () => undefined
    const changed = memoryWrapped(wrapped.stored()?.replace(/.{4}$/, 'AAAA'))
    expect(await refusalOf(load(source, { wrapped: changed, outbound }))).toContain('status 400')
  })
})
