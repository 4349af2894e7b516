/** Signing in to Vault or OpenBao: with a token, or by AppRole, in one namespace. */
import { randomUUID } from 'node:crypto'
import { VendorFault } from './fault.ts'
import { originOf } from './origin.ts'
import type { Connection } from './provider.ts'
import { faultOf, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { maybeTextAt, textAt } from './vendor-json.ts'

export type VaultSession = {
  readonly connection: Connection
  /** Logs in at most once. A token that was entered needs no login and has no account yet. */
  login(): Promise<{ readonly token: string; readonly account?: string }>
}

const pathPattern = /^(?!\.{1,2}(\/|$))[A-Za-z0-9_.@:+=-]+(\/(?!\.{1,2}(\/|$))[A-Za-z0-9_.@:+=-]+)*$/

export function checkPath(value: string): string | undefined {
  return pathPattern.test(value)
    ? undefined
    : 'is not a path: use letters, digits and _ . @ : + = -, separated by single slashes.'
}

export const encodePath = (path = '') => path.split('/').map(encodeURIComponent).join('/')
const urlOf = ({ credential }: Connection, path: string) => `${originOf(credential.address ?? '')}/v1/${path}`

const headersOf = ({ credential }: Connection) => ({
  'x-vault-request': 'true',
  ...(credential.namespace && { 'x-vault-namespace': credential.namespace }),
})

/** An expired token gets a 403, like a forbidden path; only the message differs, and only on recent servers. */
const isInvalidToken = ({ json }: VendorResponse) =>
  /invalid token|bad token/.test(String(maybeTextAt(json, 'errors', 0)))

const sort = (response: VendorResponse) =>
  response.status === 403 && isInvalidToken(response) ? ('auth' as const) : undefined

export const isForbidden = (response: VendorResponse) => response.status === 403 && !isInvalidToken(response)

/**
 * Some servers say which id is wrong. A missing AppRole mount is refused like any path without a token, and so is a
 * namespace that does not exist.
 */
const blameLogin = (connection: Connection) => (response: VendorResponse) => {
  if (response.status === 400)
    return /role id/i.test(maybeTextAt(response.json, 'errors', 0) ?? '') ? 'roleId' : 'secretId'
  return connection.credential.namespace && isForbidden(response) ? 'namespace' : 'approleMount'
}

const refusedLogin = ({ status }: VendorResponse) => (status === 400 || status === 403 ? ('auth' as const) : undefined)

async function logIn(connection: Connection): Promise<{ token: string; account: string }> {
  const { approleMount, roleId, secretId } = connection.credential
  const { json } = await connection.http.send({
    method: 'POST',
    url: urlOf(connection, `auth/${encodePath(approleMount || 'approle')}/login`),
    headers: headersOf(connection),
    json: { role_id: roleId, secret_id: secretId },
    isRead: true,
    sort: refusedLogin,
    blame: blameLogin(connection),
  })
  return {
    token: textAt(json, 'auth', 'client_token'),
    account: maybeTextAt(json, 'auth', 'metadata', 'role_name') ?? 'AppRole',
  }
}

export function openVault(connection: Connection): VaultSession {
  const { method, token = '' } = connection.credential
  let login: ReturnType<VaultSession['login']> | undefined
  return {
    connection,
    login() {
      login ??= method === 'approle' ? logIn(connection) : Promise.resolve({ token })
      return login
    },
  }
}

export async function sendToVault(
  vault: VaultSession,
  path: string,
  request: Omit<VendorRequest, 'url'>,
): Promise<VendorResponse> {
  const { connection } = vault
  const headers = { ...headersOf(connection), 'x-vault-token': (await vault.login()).token, ...request.headers }
  return connection.http.send({ sort, ...request, headers, url: urlOf(connection, path) })
}

export async function verifyVault(connection: Connection): Promise<string> {
  const vault = openVault(connection)
  const account = (await vault.login()).account ?? (await lookUpToken(vault))
  if (connection.credential.namespace) await requireNamespaces(vault)
  return account
}

const lookUpPath = 'auth/token/lookup-self'

/** Every valid token may read the list of mounts, so that list tells a missing right from a wrong namespace or token. */
async function lookUpToken(vault: VaultSession): Promise<string> {
  const response = await sendToVault(vault, lookUpPath, { method: 'GET', accept: isForbidden })
  if (response.status === 200) return textAt(response.json, 'data', 'display_name')
  const { status } = await sendToVault(vault, 'sys/internal/ui/mounts', { method: 'GET', accept: [403, 404] })
  if (status === 200) {
    throw new VendorFault('scope', 'The token may not look itself up.', {
      status: response.status,
      field: 'token',
      remedy: 'Attach the policy "default" to it, or enter another token.',
    })
  }
  const { credential, now } = vault.connection
  throw credential.namespace ? faultOf(response, now(), 'gone', 'namespace') : faultOf(response, now(), 'auth')
}

/** A server without namespaces ignores their header, so it also accepts one that cannot exist. */
async function requireNamespaces(vault: VaultSession): Promise<void> {
  const headers = { 'x-vault-namespace': `coffer-${randomUUID()}` }
  const { status } = await sendToVault(vault, lookUpPath, { method: 'GET', headers, accept: [400, 403, 404] })
  if (status !== 200) return
  throw new VendorFault('gone', 'The server has no namespaces, and ignores the one that was entered.', {
    field: 'namespace',
    remedy: 'Leave this field empty.',
  })
}
