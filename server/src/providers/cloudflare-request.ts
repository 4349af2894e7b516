/** Cloudflare's response envelope: its `success` field decides, not the status, and error codes give the reason. */
import { type FaultKind, isFault, VendorFault } from './fault.ts'
import type { Connection, Field } from './provider.ts'
import { faultOf, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

const api = 'https://api.cloudflare.com/client/v4'

type CloudflareRequest = Pick<VendorRequest, 'method' | 'json'> & { readonly path: string }

/** Error codes whose meaning the status does not show. */
const kinds: Readonly<Record<string, FaultKind>> = {
  6003: 'auth', // The authorization header is malformed, so the token is too.
  7000: 'gone',
  7003: 'gone', // No route: the account does not exist.
  10053: 'conflict', // Another kind of binding has this name.
  10055: 'quota',
  10215: 'conflict', // The newest version is not deployed, and writing a secret would deploy it.
}

function sort({ status, json }: VendorResponse): FaultKind | undefined {
  const code = maybeTextAt(json, 'errors', 0, 'code') ?? ''
  const message = maybeTextAt(json, 'errors', 0, 'message') ?? ''
  if (code === '9109' && /invalid access token/i.test(message)) return 'auth'
  return kinds[code] ?? (status < 300 ? 'invalid' : undefined)
}

/** Returns the whole response after checking that it succeeded. */
export async function askCloudflare(connection: Connection, { path, ...request }: CloudflareRequest): Promise<unknown> {
  const response = await connection.http.send({
    ...request,
    url: `${api}${path}`,
    headers: { authorization: `Bearer ${connection.credential.token}` },
    sort,
  })
  if (at(response.json, 'success') === true) return response.json
  if (at(response.json, 'success') === false) throw faultOf(response, connection.now(), sort(response))
  throw new VendorFault('protocol', 'The response does not say whether the call succeeded.')
}

/** The items of a list; Cloudflare sends null for an empty one. */
export const resultsOf = (answer: unknown) => listAt({ result: at(answer, 'result') ?? [] }, 'result')

export const accountPath = ({ credential }: Connection) => `/accounts/${credential.accountId}`

/** A token belongs to a person or to an account, each with its own verify endpoint. */
async function statusOf(connection: Connection): Promise<string> {
  try {
    return textAt(await askCloudflare(connection, { method: 'GET', path: '/user/tokens/verify' }), 'result', 'status')
  } catch (error) {
    if (!isFault(error, 'auth') && !isFault(error, 'scope')) throw error
    const path = `${accountPath(connection)}/tokens/verify`
    const answer = await askCloudflare(connection, { method: 'GET', path }).catch((second: unknown) => {
      throw isFault(second, 'transient') || isFault(second, 'rate') ? second : error
    })
    return textAt(answer, 'result', 'status')
  }
}

export async function verifyToken(connection: Connection): Promise<string> {
  const status = await statusOf(connection)
  if (status !== 'active') throw new VendorFault('auth', 'The token is not active.', { field: 'token' })
  try {
    return textAt(await askCloudflare(connection, { method: 'GET', path: accountPath(connection) }), 'result', 'name')
  } catch (error) {
    // The name is only for display: a token that may not read it is still valid.
    if (isFault(error, 'scope')) return `account ${connection.credential.accountId}`
    if (isFault(error, 'gone')) throw new VendorFault('gone', 'There is no such account.', { field: 'accountId' })
    throw error
  }
}

/** Undefined if the token may not list. `pageSize`: the vendor's maximum, if the list has pages. */
export async function listNames(
  connection: Connection,
  path: string,
  key: string,
  pageSize = Number.POSITIVE_INFINITY,
) {
  const names: string[] = []
  try {
    for (let isLast = false, page = 1; !isLast; page++) {
      const query = Number.isFinite(pageSize) ? `?page=${page}&per_page=${pageSize}` : ''
      const answer = await askCloudflare(connection, { method: 'GET', path: `${path}${query}` })
      const items = resultsOf(answer)
      names.push(...items.map((item) => textAt(item, key)))
      const pages = maybeTextAt(answer, 'result_info', 'total_pages')
      isLast = items.length === 0 || (pages === undefined ? items.length < pageSize : page >= Number(pages))
    }
  } catch (error) {
    if (isFault(error, 'scope')) return undefined
    throw error
  }
  return names.map((name) => ({ label: name, value: name }))
}

export const authFields = (permission: string): readonly Field[] => [
  {
    kind: 'copy',
    id: 'permission',
    label: 'Create a token',
    description: 'Open My profile, or Manage account, → API tokens → Create custom token. Limit it to this account.',
    language: 'text',
    text: () => permission,
  },
  { kind: 'password', id: 'token', label: 'API token' },
  {
    kind: 'text',
    id: 'accountId',
    label: 'Account ID',
    description: '32 characters, shown on the overview of the account.',
    placeholder: '023e105f4ecef8ad9ca31a8372d0c353',
    check: (value) => (/^[0-9a-f]{32}$/.test(value) ? undefined : 'is not an account ID: 32 of 0-9 and a-f.'),
  },
]
