/** Wraps the master key with an RSA key of Azure Key Vault. */
import { type AzureCloud, azureClouds, azureTokenRequest } from '../azure-cloud.ts'
import {
  callService,
  fieldOf,
  fromBase64,
  requireText,
  unusable,
  type Wrapping,
  type WrappingOptions,
} from './key-service.ts'

export type AzureKeyVault = {
  kind: 'azure-key-vault'
  /** Origin of the vault, such as https://example.vault.azure.net. */
  vault: string
  key: string
  /** Undefined: the newest version wraps. A wrapped key remembers the version that opens it. */
  version?: string
  /** Undefined: the managed identity of the machine signs in. */
  application: { tenantId: string; clientId: string; clientSecret: string } | undefined
  /** Of a managed identity, if the machine has several. */
  clientId?: string
  identityHost?: string
}

const name = 'Azure Key Vault'
const apiVersion = 'api-version=7.4'
const algorithm = 'RSA-OAEP-256'
const identityHost = 'http://169.254.169.254'

export function azureKeyVaultWrapping(source: AzureKeyVault, { outbound }: WrappingOptions): Wrapping {
  const cloud = cloudOf(source.vault)

  async function fetchToken(): Promise<string> {
    const service = source.application ? 'Microsoft Entra ID' : 'the managed identity of Azure'
    const request = source.application ? azureTokenRequest(cloud, source.application) : identityRequest(source, cloud)
    return requireText(await callService(outbound, service, request), 'access_token', service)
  }

  async function send(path: string, body?: object): Promise<unknown> {
    const authorization = `Bearer ${await fetchToken()}`
    return callService(outbound, name, {
      url: `${source.vault}/keys/${path}?${apiVersion}`,
      method: body ? 'POST' : 'GET',
      headers: { authorization, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
  }

  async function call(operation: 'wrapkey' | 'unwrapkey', version: string, value: string): Promise<string> {
    const answer = await send(`${source.key}/${version}/${operation}`, { alg: algorithm, value })
    if (versionOf(fieldOf(answer, 'kid')) !== version) throw unusable(name)
    return requireText(answer, 'value', name)
  }

  return {
    kind: 'azure-key-vault',
    name,
    wrap: async (key) => {
      const version = source.version ?? versionOf(fieldOf(fieldOf(await send(source.key), 'key'), 'kid'))
      const value = await call('wrapkey', version, Buffer.from(key).toString('base64url'))
      return `${version}.${value}`
    },
    unwrap: async (wrapped) => {
      const [version = '', value = ''] = wrapped.split('.')
      return fromBase64(await call('unwrapkey', version, value))
    },
  }
}

/** The last part of a key's id: https://<vault>/keys/<name>/<version>. */
function versionOf(kid: unknown): string {
  const version = typeof kid === 'string' ? /\/keys\/[^/]+\/([0-9a-z]+)$/i.exec(kid)?.[1] : undefined
  if (version === undefined) throw unusable(name)
  return version
}

const cloudOf = (vault: string): AzureCloud =>
  Object.values(azureClouds).find(({ vaults }) => new URL(vault).hostname.endsWith(`.${vaults}`)) ?? azureClouds.public

function identityRequest(source: AzureKeyVault, { vaults }: AzureCloud) {
  const query = new URLSearchParams({ 'api-version': '2018-02-01', resource: `https://${vaults}` })
  if (source.clientId !== undefined) query.set('client_id', source.clientId)
  return {
    url: `${source.identityHost ?? identityHost}/metadata/identity/oauth2/token?${query}`,
    method: 'GET' as const,
    headers: { metadata: 'true' },
  }
}
