/** AWS KMS and the transit engine: Coffer stores only the ciphertext, and the service decides who may unwrap it. */
import { type AwsCredentials, signAwsRequest, unsendableCredential } from '../aws-signature.ts'
import { MasterKeyError } from './error.ts'
import {
  callService,
  fieldOf,
  fromBase64,
  requireText,
  requireUrl,
  toBase64,
  type Wrapping,
  type WrappingOptions,
} from './key-service.ts'

export type AwsKms = {
  kind: 'aws-kms'
  keyId: string
  region: string
  endpoint?: string
  credentials: AwsCredentials | undefined
}
export type Transit = {
  kind: 'transit'
  address: string
  mount: string
  key: string
  token: string
  namespace?: string
}

/**
 * Wraps with AWS KMS. The encryption context keeps other ciphertexts made with the same KMS key from being accepted as
 * ours.
 */
export function awsKmsWrapping(source: AwsKms, { outbound }: WrappingOptions): Wrapping {
  const name = 'AWS KMS'
  const credentials = requireCredentials(source)
  if (!/^[a-z]{2,}(-[a-z]+)+-\d+$/.test(source.region)) {
    throw new MasterKeyError('The region of AWS KMS must look like "eu-central-1".')
  }
  const domain = source.region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  const url = requireUrl(source.endpoint ?? `https://kms.${source.region}.${domain}/`, name)

  async function call(operation: 'Encrypt' | 'Decrypt', fields: Record<string, string>, field: string) {
    const body = JSON.stringify({ KeyId: source.keyId, EncryptionContext: { coffer: 'master-key' }, ...fields })
    const headers = { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': `TrentService.${operation}` }
    const place = { service: 'kms', region: source.region, nowMs: Date.now() }
    const unsigned = { method: 'POST', url: url.href, headers, body, ...place } as const
    const signed = await signAwsRequest(credentials, unsigned, new Map())
    const answer = await callService(outbound, name, { url: url.href, headers: signed, body })
    return requireText(answer, field, name)
  }

  return {
    kind: 'aws-kms',
    name,
    wrap: (key) => call('Encrypt', { Plaintext: toBase64(key) }, 'CiphertextBlob'),
    unwrap: async (wrapped) => fromBase64(await call('Decrypt', { CiphertextBlob: wrapped }, 'Plaintext')),
  }
}

/** Wraps with the transit engine of Vault or OpenBao. */
export function transitWrapping(source: Transit, { outbound }: WrappingOptions): Wrapping {
  const name = 'the transit engine'
  const base = requireUrl(source.address, name).href.replace(/\/+$/, '')

  async function call(operation: 'encrypt' | 'decrypt', fields: Record<string, string>, field: string) {
    const segments = ['v1', ...source.mount.split('/').filter((part) => part !== ''), operation, source.key]
    const answer = await callService(outbound, name, {
      url: [base, ...segments.map(encodeURIComponent)].join('/'),
      headers: {
        'content-type': 'application/json',
        'x-vault-request': 'true',
        'x-vault-token': source.token,
        ...(source.namespace ? { 'x-vault-namespace': source.namespace } : {}),
      },
      body: JSON.stringify(fields),
    })
    return requireText(fieldOf(answer, 'data'), field, name)
  }

  return {
    kind: 'transit',
    name,
    wrap: (key) => call('encrypt', { plaintext: toBase64(key) }, 'ciphertext'),
    unwrap: async (wrapped) => fromBase64(await call('decrypt', { ciphertext: wrapped }, 'plaintext')),
  }
}

function requireCredentials({ credentials }: AwsKms): AwsCredentials {
  if (!credentials) {
    throw new MasterKeyError('AWS KMS needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.')
  }
  const wrong = unsendableCredential(credentials)
  if (wrong)
    throw new MasterKeyError(
      `${wrong} contains characters that an HTTP header cannot carry: check it for spaces and line breaks.`,
    )
  return credentials
}
