/** Microsoft's clouds, and the request with which an application with a secret signs in to one. */
export type AzureCloud = { readonly label: string; readonly login: string; readonly vaults: string }

export const azureClouds = {
  public: { label: 'Azure', login: 'login.microsoftonline.com', vaults: 'vault.azure.net' },
  government: { label: 'Azure Government', login: 'login.microsoftonline.us', vaults: 'vault.usgovcloudapi.net' },
  china: { label: 'Azure operated by 21Vianet', login: 'login.chinacloudapi.cn', vaults: 'vault.azure.cn' },
} as const satisfies Record<string, AzureCloud>

type Application = { readonly tenantId: string; readonly clientId: string; readonly clientSecret: string }
type TokenRequest = { readonly url: string; readonly headers: Record<string, string>; readonly body: string }

/** The request whose response holds `access_token`, for the vaults of the cloud. */
export function azureTokenRequest({ login, vaults }: AzureCloud, application: Application): TokenRequest {
  const { tenantId, clientId, clientSecret } = application
  return {
    url: `https://${login}/${encodeURIComponent(tenantId)}/oauth2/v2.0/token`,
    headers: { 'content-type': 'application/x-www-form-urlencoded;charset=utf-8' },
    body: new URLSearchParams({
      client_id: clientId,
      scope: `https://${vaults}/.default`,
      grant_type: 'client_credentials',
      client_secret: clientSecret,
    }).toString(),
  }
}
