/** GitLab's calls for CI/CD variables. A key may exist in several environment scopes; the sync uses one of them. */
import { VendorFault } from './fault.ts'
import { applyEach, findFew } from './one-by-one.ts'
import { type Connection, type Op, ownerText, type Remote, type RemoteItem } from './provider.ts'
import { baseUrlOf } from './self-hosted.ts'
import { faultOf, nextLink, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

export const gitlabCom = 'https://gitlab.com'
export const apiOf = ({ credential }: Connection) => `${baseUrlOf(credential.baseUrl, gitlabCom)}/api/v4`
export const headersOf = ({ credential }: Connection) => ({ 'private-token': credential.token ?? '' })
const scopeOf = ({ target }: Connection) => target.environmentScope ?? '*'

function variablesUrl(connection: Connection): string {
  const { kind, project = '', group = '' } = connection.target
  const owner = kind === 'group' ? `groups/${encodeURIComponent(group)}` : `projects/${encodeURIComponent(project)}`
  return `${apiOf(connection)}/${owner}/variables`
}

export async function* listItems(connection: Connection, url: string): AsyncIterable<unknown> {
  let next: string | undefined = url
  while (next !== undefined) {
    const response = await connection.http.send({ method: 'GET', url: next, headers: headersOf(connection) })
    yield* listAt(response.json)
    next = nextLink(next, response)
  }
}

async function* listVariables(connection: Connection): AsyncIterable<RemoteItem> {
  for await (const item of listItems(connection, `${variablesUrl(connection)}?per_page=100`)) {
    if (textAt(item, 'environment_scope') === scopeOf(connection)) yield itemOf(connection, item)
  }
}

/** A hidden variable shows no value, and servers before 16.2 have no description. */
function itemOf({ syncId }: Connection, variable: unknown): RemoteItem {
  const value = maybeTextAt(variable, 'value')
  const description = at(variable, 'description')
  return {
    name: textAt(variable, 'key'),
    ...(value !== undefined && { value }),
    ...(description !== undefined && { isOurs: description === ownerText(syncId) }),
  }
}

/** GitLab's rule for values that are not expanded. */
export const isMaskable = (value: string) => /^\S{8,}$/.test(value)

/** A refusal's message about one field. */
const complaintOf = ({ status, json }: VendorResponse, field: string) =>
  status === 400 ? at(json, 'message', field) : undefined
const isTaken = (response: VendorResponse) => /already been taken/.test(String(complaintOf(response, 'key')))
const isFull = (response: VendorResponse) => /Maximum number/.test(String(complaintOf(response, 'base')))

export function openVariables(connection: Connection): Remote {
  const { http, options, syncId, target } = connection
  const url = variablesUrl(connection)
  const scope = scopeOf(connection)
  const headers = headersOf(connection)
  const attributes = {
    // Otherwise GitLab would expand every $ in a value.
    raw: true,
    protected: options.protected === 'yes',
    variable_type: options.type === 'file' ? 'file' : 'env_var',
  }
  const one = (name: string) => `${url}/${name}?filter%5Benvironment_scope%5D=${encodeURIComponent(scope)}`

  async function write(request: { method: 'POST' | 'PUT'; url: string }, value: string, more: object = {}) {
    const send = (masked: boolean) =>
      http.send({ ...request, headers, json: { ...more, ...attributes, value, masked }, accept: [400, 404] })
    const masked = options.masked === 'require' || (options.masked !== 'off' && isMaskable(value))
    const response = await send(masked)
    // Older servers can mask fewer values, so retry unmasked.
    const isRefused = masked && options.masked !== 'require' && complaintOf(response, 'value') !== undefined
    return isRefused ? send(false) : response
  }

  function resultOf(response: VendorResponse): { note?: string } {
    if (response.status >= 400) throw faultOf(response, connection.now(), isFull(response) ? 'quota' : undefined)
    const isBare = options.masked !== 'off' && at(response.json, 'masked') === false
    return isBare ? { note: 'The value is not masked in job logs.' } : {}
  }

  /** A group's write may hit a variable of another scope with the same key, so look before each write. */
  async function find(name: string): Promise<unknown> {
    const response = await http.send({ method: 'GET', url: one(name), headers, accept: [404] })
    if (response.status === 404) {
      requireTarget(response)
      return undefined
    }
    return at(response.json, 'environment_scope') === scope ? response.json : undefined
  }

  /** Throws if the project or group is missing, rather than only the variable. */
  function requireTarget(response: VendorResponse): void {
    if (!/Variable Not Found/.test(maybeTextAt(response.json, 'message') ?? ''))
      throw faultOf(response, connection.now())
  }

  async function create(name: string, value: string) {
    const mine = { key: name, environment_scope: scope, description: ownerText(syncId) }
    const response = await write({ method: 'POST', url }, value, mine)
    if (isTaken(response)) return takeOver(name, value)
    const result = resultOf(response)
    if (at(response.json, 'environment_scope') === scope) return result
    // A group without a plan for scopes creates the variable for all environments. Nobody asked for that, so delete it.
    await http.send({ method: 'DELETE', url: `${url}/${name}?filter%5Benvironment_scope%5D=%2A`, headers })
    throw new VendorFault('invalid', 'GitLab does not store environment scopes for this group: they need a paid plan.')
  }

  /** The variable is ours if an earlier response was lost; otherwise it belongs to somebody else. */
  async function takeOver(name: string, value: string) {
    const found = await find(name)
    const isOurs = at(found, 'description') === ownerText(syncId) || at(found, 'value') === value
    if (!isOurs) throw new VendorFault('conflict', 'A variable with this name and scope already exists.')
    return resultOf(await write({ method: 'PUT', url: one(name) }, value))
  }

  async function update(name: string, value: string) {
    if (target.kind === 'group' && (await find(name)) === undefined) return create(name, value)
    const response = await write({ method: 'PUT', url: one(name) }, value)
    if (response.status !== 404) return resultOf(response)
    requireTarget(response)
    return create(name, value)
  }

  async function remove(name: string): Promise<void> {
    if (target.kind === 'group' && (await find(name)) === undefined) return
    const response = await http.send({ method: 'DELETE', url: one(name), headers, accept: [404] })
    if (response.status === 404) requireTarget(response)
  }

  async function perform(op: Op) {
    if (op.kind === 'create') return create(op.name, op.value)
    if (op.kind === 'update') return update(op.name, op.value)
    return void (await remove(op.name))
  }

  async function findOne(name: string): Promise<RemoteItem | undefined> {
    const variable = await find(name)
    return variable === undefined ? undefined : itemOf(connection, variable)
  }

  const list = () => listVariables(connection)
  return {
    list,
    find: (entries) => findFew(entries, ({ name }) => findOne(name)),
    apply: (ops) => applyEach(ops, perform),
  }
}
