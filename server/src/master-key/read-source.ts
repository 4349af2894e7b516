/** Reads the settings that say where the master key comes from. Exactly one of them is set, or the default applies. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readAwsCredentials } from '../aws-signature.ts'
import { ConfigError } from '../config-error.ts'
import { codeOf } from '../error-code.ts'
import { readServiceAccount, type ServiceAccount } from '../google-service-account.ts'
import type { MasterKeySource } from './master-key.ts'

type Text = (name: string) => string | undefined
type Reader = (value: string, text: Text) => MasterKeySource

/** The setting of each kind of source. */
export const masterKeySettings = {
  value: 'COFFER_MASTER_KEY',
  file: 'COFFER_MASTER_KEY_FILE',
  command: 'COFFER_MASTER_KEY_COMMAND',
  'aws-kms': 'COFFER_MASTER_KEY_KMS',
  'google-kms': 'COFFER_MASTER_KEY_GOOGLE_KMS',
  'azure-key-vault': 'COFFER_MASTER_KEY_AZURE_KEY_VAULT',
  transit: 'COFFER_MASTER_KEY_TRANSIT',
  shares: 'COFFER_MASTER_KEY_SHARES',
} as const satisfies Record<MasterKeySource['kind'], string>

const readers: Record<MasterKeySource['kind'], Reader> = {
  value: (value) => ({ kind: 'value', value }),
  file: (path) => ({ kind: 'file', path }),
  command: (command) => ({ kind: 'command', command }),
  'aws-kms': readKms,
  'google-kms': readGoogleKms,
  'azure-key-vault': readAzureKeyVault,
  transit: readTransit,
  shares: readShares,
}

export function readMasterKeySource(text: Text, dataDir: string): MasterKeySource {
  const given = kinds.filter((kind) => text(masterKeySettings[kind]) !== undefined && !isOff(kind, text))
  if (given.length > 1) {
    const names = given.map((kind) => masterKeySettings[kind])
    throw new ConfigError(`${names.join(' and ')} are both set: set only one of them.`)
  }
  const [kind = 'file'] = given
  return readSource(kind, text(masterKeySettings[kind]) ?? join(dataDir, 'master.key'), text)
}

export type SourceKind = MasterKeySource['kind']

/** Reads one source, whichever the settings choose. Credentials come from the vendors' own variables. */
export const readSource = (kind: SourceKind, value: string, text: Text): MasterKeySource => readers[kind](value, text)

export const isSourceKind = (text: string): text is SourceKind => Object.hasOwn(masterKeySettings, text)
const kinds = Object.keys(masterKeySettings).filter(isSourceKind)

const isOff = (kind: SourceKind, text: Text) => kind === 'shares' && text(masterKeySettings.shares) === 'off'

function readShares(value: string): MasterKeySource {
  if (value !== 'on') throw new ConfigError('COFFER_MASTER_KEY_SHARES must be one of: on, off.')
  return { kind: 'shares' }
}

function readKms(keyId: string, text: Text): MasterKeySource {
  const region = /^arn:[^:]+:kms:([^:]+):/.exec(keyId)?.[1] ?? text('AWS_REGION')
  if (!region) throw new ConfigError('COFFER_MASTER_KEY_KMS: give the ARN of the key, or its id and AWS_REGION.')
  const endpoint = text('AWS_ENDPOINT_URL_KMS')
  const source = { kind: 'aws-kms', keyId, region, credentials: readAwsCredentials(text) } as const
  return endpoint === undefined ? source : { ...source, endpoint }
}

const googleKeyName = /^projects\/[\w.:-]+\/locations\/[\w-]+\/keyRings\/[\w-]+\/cryptoKeys\/[\w-]+$/

function readGoogleKms(keyName: string, text: Text): MasterKeySource {
  if (!googleKeyName.test(keyName)) {
    throw new ConfigError(
      'COFFER_MASTER_KEY_GOOGLE_KMS must be of the form projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>.',
    )
  }
  const endpoint = text('CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS')
  const metadataHost = text('GCE_METADATA_HOST')
  const account = readGoogleAccount(text('GOOGLE_APPLICATION_CREDENTIALS'))
  return {
    kind: 'google-kms',
    keyName,
    account,
    ...(endpoint !== undefined && { endpoint }),
    ...(metadataHost !== undefined && { metadataHost }),
  }
}

function readGoogleAccount(path: string | undefined): ServiceAccount | undefined {
  if (path === undefined) return undefined
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch (error) {
    throw new ConfigError(`GOOGLE_APPLICATION_CREDENTIALS: the file ${path} cannot be read (${codeOf(error)}).`)
  }
  const account = readServiceAccount(content)
  if (!account) {
    throw new ConfigError(`GOOGLE_APPLICATION_CREDENTIALS: the file ${path} is not the JSON key of a service account.`)
  }
  return account
}

function readAzureKeyVault(address: string, text: Text): MasterKeySource {
  const url = URL.parse(address)
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === ''
  const [, key, version] = /^\/keys\/([0-9a-zA-Z-]{1,127})(?:\/([0-9a-zA-Z]+))?\/?$/.exec(url?.pathname ?? '') ?? []
  if (!url || !isPlain || key === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new ConfigError(
      'COFFER_MASTER_KEY_AZURE_KEY_VAULT must be of the form https://<vault>.vault.azure.net/keys/<key>.',
    )
  }
  const [tenantId, clientId, clientSecret] = [
    text('AZURE_TENANT_ID'),
    text('AZURE_CLIENT_ID'),
    text('AZURE_CLIENT_SECRET'),
  ]
  if (clientSecret !== undefined && (tenantId === undefined || clientId === undefined)) {
    throw new ConfigError('AZURE_CLIENT_SECRET needs AZURE_TENANT_ID and AZURE_CLIENT_ID: set all three.')
  }
  const isApplication = tenantId !== undefined && clientId !== undefined && clientSecret !== undefined
  const identityHost = text('AZURE_POD_IDENTITY_AUTHORITY_HOST')
  return {
    kind: 'azure-key-vault',
    vault: url.origin,
    key,
    ...(version !== undefined && { version }),
    application: isApplication ? { tenantId, clientId, clientSecret } : undefined,
    ...(clientId !== undefined && { clientId }),
    ...(identityHost !== undefined && { identityHost }),
  }
}

function readTransit(address: string, text: Text): MasterKeySource {
  const [token, namespace] = [text('VAULT_TOKEN'), text('VAULT_NAMESPACE')]
  const url = URL.parse(address)
  const match = url && /^\/v1\/(.+)\/keys\/([^/]+)\/?$/.exec(url.pathname)
  if (!url || !match?.[1] || !match[2] || !['http:', 'https:'].includes(url.protocol)) {
    throw new ConfigError('COFFER_MASTER_KEY_TRANSIT must be of the form https://host/v1/<mount>/keys/<key>.')
  }
  if (!token) throw new ConfigError('COFFER_MASTER_KEY_TRANSIT needs a token in VAULT_TOKEN.')
  const source = { kind: 'transit', address: url.origin, mount: match[1], key: match[2], token } as const
  return namespace === undefined ? source : { ...source, namespace }
}
