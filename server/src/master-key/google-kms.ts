/** Wraps the master key with Google Cloud KMS. Checksums show that neither side received damaged bytes. */
import { crc32c } from '../crc32c.ts'
import { googleTokenRequest, type ServiceAccount } from '../google-service-account.ts'
import { MasterKeyError } from './error.ts'
import {
  callService,
  fieldOf,
  fromBase64,
  requireText,
  requireUrl,
  toBase64,
  unusable,
  type Wrapping,
  type WrappingOptions,
} from './key-service.ts'

export type GoogleKms = {
  kind: 'google-kms'
  /** projects/…/locations/…/keyRings/…/cryptoKeys/… */
  keyName: string
  /** Undefined: the identity of the machine or pod signs in, through the metadata server. */
  account: ServiceAccount | undefined
  endpoint?: string
  metadataHost?: string
}

const name = 'Google Cloud KMS'
/** Keeps other ciphertexts made with the same key from being accepted as ours. */
const context = Buffer.from('coffer master-key')

export function googleKmsWrapping(source: GoogleKms, { outbound }: WrappingOptions): Wrapping {
  const base = requireUrl(source.endpoint ?? 'https://cloudkms.googleapis.com/', name).href.replace(/\/+$/, '')

  async function fetchToken(): Promise<string> {
    const { account, metadataHost = 'metadata.google.internal' } = source
    const request = account
      ? googleTokenRequest(account, Date.now())
      : {
          url: `http://${metadataHost}/computeMetadata/v1/instance/service-accounts/default/token`,
          method: 'GET' as const,
          headers: { 'metadata-flavor': 'Google' },
        }
    const service = account ? 'Google OAuth' : 'the metadata server of Google Cloud'
    return requireText(await callService(outbound, service, request), 'access_token', service)
  }

  async function call(operation: 'encrypt' | 'decrypt', field: string, bytes: Uint8Array): Promise<unknown> {
    const authorization = `Bearer ${await fetchToken()}`
    return callService(outbound, name, {
      url: `${base}/v1/${source.keyName}:${operation}`,
      headers: { 'content-type': 'application/json', authorization },
      body: JSON.stringify({
        [field]: toBase64(bytes),
        [`${field}Crc32c`]: checksum(bytes),
        additionalAuthenticatedData: toBase64(context),
        additionalAuthenticatedDataCrc32c: checksum(context),
      }),
    })
  }

  return {
    kind: 'google-kms',
    name,
    wrap: async (key) => {
      const answer = await call('encrypt', 'plaintext', key)
      const isReceived = ['verifiedPlaintextCrc32c', 'verifiedAdditionalAuthenticatedDataCrc32c'].every(
        (field) => fieldOf(answer, field) === true,
      )
      if (!isReceived) throw damaged()
      return toBase64(requireIntact(answer, 'ciphertext'))
    },
    unwrap: async (wrapped) => requireIntact(await call('decrypt', 'ciphertext', fromBase64(wrapped)), 'plaintext'),
  }
}

/** An int64 is text in Google's JSON. */
const checksum = (bytes: Uint8Array) => String(crc32c(bytes))

function requireIntact(answer: unknown, field: string): Uint8Array {
  const bytes = fromBase64(requireText(answer, field, name))
  const sum = fieldOf(answer, `${field}Crc32c`)
  if (sum === undefined) throw unusable(name)
  if (String(sum) !== checksum(bytes)) throw damaged()
  return bytes
}

const damaged = () => new MasterKeyError(`The exchange with ${name} was damaged on its way; try again.`)
