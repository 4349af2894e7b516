/** Signing in to Azure: an application with a secret, in one tenant of one of Microsoft's clouds. */
import { type AzureCloud, azureClouds, azureTokenRequest } from '../azure-cloud.ts'
import { VendorFault } from './fault.ts'
import type { Connection, Field, Option, Values } from './provider.ts'
import { faultOf, type VendorResponse } from './vendor-http.ts'
import { maybeTextAt, textAt } from './vendor-json.ts'

const isCloud = (id: string): id is keyof typeof azureClouds => Object.hasOwn(azureClouds, id)

/** The cloud chosen in the credential's form. */
export const cloudOf = ({ cloud = '' }: Values): AzureCloud => azureClouds[isCloud(cloud) ? cloud : 'public']

const cloudOptions: readonly Option[] = Object.entries(azureClouds).map(([value, { label }]) => ({ label, value }))

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const domain = /^(?=.{3,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/i

export const azureAuth: readonly Field[] = [
  { kind: 'select', id: 'cloud', label: 'Cloud', defaultValue: 'public', options: cloudOptions },
  {
    kind: 'copy',
    id: 'command',
    label: 'Create an application',
    description:
      'Replace VAULT with the name of the vault. The application gets rights on the secrets of this vault only. The command prints appId, password and tenant.',
    language: 'bash',
    text: () => `az ad sp create-for-rbac --name coffer --role "Key Vault Secrets Officer" \\
--scopes "$(az keyvault show --name VAULT --query id --output tsv)"`,
  },
  {
    kind: 'text',
    id: 'tenantId',
    label: 'Tenant',
    description: 'The id of the directory, or one of its domains.',
    check: (value) => (uuid.test(value) || domain.test(value) ? undefined : 'is neither an id nor a domain.'),
  },
  {
    kind: 'text',
    id: 'clientId',
    label: 'Application (client) id',
    check: (value) => (uuid.test(value) ? undefined : 'is not the id of an application.'),
  },
  { kind: 'password', id: 'clientSecret', label: 'Client secret', description: 'The value of the secret, not its id.' },
]

export async function fetchAzureToken(connection: Connection): Promise<string> {
  const { tenantId = '', clientId = '', clientSecret = '' } = connection.credential
  const response = await connection.http.send({
    ...azureTokenRequest(cloudOf(connection.credential), { tenantId, clientId, clientSecret }),
    method: 'POST',
    service: 'Microsoft Entra ID',
    isRead: true,
    accept: [400, 401],
  })
  if (response.status >= 400) throw refusalOf(response, connection.now())
  return textAt(response.json, 'access_token')
}

/** The field of the wizard's form that an error code refers to. */
const fieldByCode: Readonly<Record<string, string>> = {
  '90002': 'tenantId',
  '900023': 'tenantId',
  '700016': 'clientId',
  '7000215': 'clientSecret',
  '7000222': 'clientSecret',
}

function refusalOf(response: VendorResponse, nowMs: number): VendorFault {
  const { facts } = faultOf(response, nowMs, 'auth')
  const field = fieldByCode[maybeTextAt(response.json, 'error_codes', 0) ?? '']
  return new VendorFault('auth', 'Microsoft rejects the application or its secret.', {
    ...facts,
    ...(field !== undefined && { field }),
  })
}
