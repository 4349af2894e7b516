/**
 * Environment variables of a Render service or environment group. One call each, because the bulk call replaces
 * everything.
 */
import { isFault } from './fault.ts'
import { findFew } from './one-by-one.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem, Values } from './provider.ts'
import type { VendorRequest } from './vendor-http.ts'
import { listAt, textAt } from './vendor-json.ts'

const api = 'https://api.render.com/v1'

async function send(
  connection: Connection,
  request: Pick<VendorRequest, 'method' | 'json' | 'accept'> & { path: string },
) {
  const { path, ...rest } = request
  const headers = { authorization: `Bearer ${connection.credential.token}` }
  const { json } = await connection.http.send({ ...rest, url: `${api}${path}`, headers })
  return json
}

/** Each item has a cursor, and only an empty page marks the end. */
async function* listPages(connection: Connection, path: string): AsyncIterable<unknown> {
  let cursor: string | undefined
  while (true) {
    const after = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const items = listAt(await send(connection, { method: 'GET', path: `${path}?limit=100${after}` }))
    yield* items
    const next = items.length === 0 ? undefined : textAt(items.at(-1), 'cursor')
    if (next === undefined || next === cursor) return
    cursor = next
  }
}

async function listOptions(connection: Connection, path: string, key: string): Promise<Option[] | undefined> {
  const options: Option[] = []
  try {
    for await (const item of listPages(connection, path)) {
      options.push({ label: textAt(item, key, 'name'), value: textAt(item, key, 'id') })
    }
  } catch (error) {
    if (isFault(error, 'scope')) return undefined
    throw error
  }
  return options
}

const isGroup = (target: Values) => target.kind === 'env-group'

function placeOf({ target }: Connection): string {
  return isGroup(target)
    ? `/env-groups/${encodeURIComponent(target.envGroup ?? '')}`
    : `/services/${encodeURIComponent(target.service ?? '')}`
}

/** A group is one object with its variables; the variables of a service are paginated. */
async function* listVariables(connection: Connection): AsyncIterable<RemoteItem> {
  if (isGroup(connection.target)) {
    const group = await send(connection, { method: 'GET', path: placeOf(connection) })
    for (const item of listAt(group, 'envVars')) yield { name: textAt(item, 'key'), value: textAt(item, 'value') }
    return
  }
  for await (const item of listPages(connection, `${placeOf(connection)}/env-vars`)) {
    yield { name: textAt(item, 'envVar', 'key'), value: textAt(item, 'envVar', 'value') }
  }
}

async function findVariable(connection: Connection, name: string): Promise<RemoteItem | undefined> {
  const path = `${placeOf(connection)}/env-vars/${encodeURIComponent(name)}`
  try {
    return { name, value: textAt(await send(connection, { method: 'GET', path }), 'value') }
  } catch (error) {
    if (isFault(error, 'gone')) return undefined
    throw error
  }
}

async function* applyOps(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  for (const op of ops) {
    const path = `${placeOf(connection)}/env-vars/${encodeURIComponent(op.name)}`
    try {
      if (op.kind === 'delete') await send(connection, { method: 'DELETE', path, accept: [404] })
      else await send(connection, { method: 'PUT', path, json: { value: op.value } })
      yield { name: op.name }
    } catch (error) {
      if (!isFault(error, 'invalid')) throw error
      yield { name: op.name, fault: error }
    }
  }
}

const checkId = (prefixes: string, what: string) => (value: string) =>
  new RegExp(`^(${prefixes})-[a-z0-9]{4,64}$`).test(value) ? undefined : `is not the ID of ${what}.`

export const render: Provider = {
  slug: 'render',
  name: 'Render',
  website: 'https://render.com',
  docs: 'https://api-docs.render.com/reference/update-env-var',
  glyph: { text: 'Re', colour: '#3b2a8c' },
  notes: [
    'Variables take effect with the next deploy. The sync can deploy a service after each push, but not an environment group.',
    'Values can be read back, so changes by others are detected.',
    'Each key needs one call, and Render allows 30 a minute: a first push of many keys takes a while.',
    'An API key of Render has all rights of its owner and cannot be restricted.',
    'Render accepts no empty values and documents no size limit.',
  ],
  capabilities: { read: 'value', bulk: 1, mixes: false, guard: 'version', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    rate: { perSecond: 0.5, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permission',
      label: 'Create an API key',
      description:
        'Open the account settings, API keys. The key has all rights of the person: use an account with few rights.',
      language: 'text',
      text: () => 'https://dashboard.render.com/settings#api-keys',
    },
    { kind: 'password', id: 'token', label: 'API key', placeholder: 'rnd_…' },
  ],
  verify: async (connection) => textAt(await send(connection, { method: 'GET', path: '/users' }), 'email'),
  target: [
    {
      kind: 'select',
      id: 'kind',
      label: 'Write to',
      defaultValue: 'service',
      options: [
        { label: 'A service', value: 'service' },
        { label: 'An environment group', value: 'env-group' },
      ],
    },
    {
      kind: 'select',
      id: 'service',
      label: 'Service',
      after: ['kind'],
      when: (values) => !isGroup(values),
      options: (connection) => listOptions(connection, '/services', 'service'),
      check: checkId('srv|crn', 'a service'),
    },
    {
      kind: 'select',
      id: 'envGroup',
      label: 'Environment group',
      after: ['kind'],
      when: isGroup,
      options: (connection) => listOptions(connection, '/env-groups', 'envGroup'),
      check: checkId('evg', 'an environment group'),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'deploy',
      label: 'After a push',
      description:
        'Applies to a service. Variables of an environment group take effect with the next deploy of the services that use it.',
      defaultValue: 'no',
      options: [
        { label: 'Leave the variables until the next deploy', value: 'no' },
        { label: 'Deploy the service', value: 'yes' },
      ],
    },
  ],
  describeTarget(target) {
    const id = (isGroup(target) ? target.envGroup : target.service) ?? ''
    return { label: `${isGroup(target) ? 'environment group' : 'service'} ${id}`, fingerprint: id }
  },
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => listVariables(connection),
    find: (entries) =>
      isGroup(connection.target) ? undefined : findFew(entries, ({ name }) => findVariable(connection, name)),
    apply: (ops) => applyOps(connection, ops),
    async finish() {
      if (connection.options.deploy !== 'yes' || isGroup(connection.target)) return
      await send(connection, { method: 'POST', path: `${placeOf(connection)}/deploys`, json: {} })
    },
  }),
}
