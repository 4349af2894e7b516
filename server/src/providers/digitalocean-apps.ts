/**
 * Environment variables of an app on DigitalOcean's App Platform. No call changes a single variable: the whole app spec
 * is read, changed and written back. Secrets are returned encrypted (`EV[1:…]`), and writing back such a value keeps it
 * unchanged.
 */
import { createHash } from 'node:crypto'
import { parseExactly } from './exact-json.ts'
import { VendorFault } from './fault.ts'
import { unlessForbidden } from './offered-options.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem } from './provider.ts'
import { sameOrigin, type VendorRequest } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Json = Readonly<Record<string, unknown>>

const api = 'https://api.digitalocean.com/v2'
const componentKinds = ['services', 'workers', 'jobs', 'functions', 'static_sites']
/** Stands for the variables shared by all components. */
const wholeApp = '*'

function send({ http, credential }: Connection, url: string, request: Omit<VendorRequest, 'url'>) {
  return http.send({ ...request, url, headers: { authorization: `Bearer ${credential.token}` } })
}

const appUrl = ({ target }: Connection) => `${api}/apps/${encodeURIComponent(target.app ?? '')}`

async function listApps(connection: Connection): Promise<Option[]> {
  const options: Option[] = []
  let url: string | undefined = `${api}/apps?per_page=200`
  while (url !== undefined) {
    const { json } = await send(connection, url, { method: 'GET' })
    // An account without apps has no `apps` field.
    for (const app of listAt({ apps: at(json, 'apps') ?? [] }, 'apps')) {
      options.push({ label: textAt(app, 'spec', 'name'), value: textAt(app, 'id') })
    }
    const next = maybeTextAt(json, 'links', 'pages', 'next')
    url = next === undefined ? undefined : sameOrigin(url, next)
  }
  return options
}

/** Keeps numbers exactly as written, because the spec is written back. */
async function readSpec(connection: Connection): Promise<Json> {
  const { text } = await send(connection, appUrl(connection), { method: 'GET' })
  return objectAt(parseExactly(text), 'app', 'spec')
}

function objectAt(json: unknown, ...path: (string | number)[]): Json {
  const value = at(json, ...path)
  if (typeof value !== 'object' || value === null)
    throw new VendorFault('protocol', `The response lacks ${path.join('.')}.`)
  return { ...value }
}

async function listComponents(connection: Connection): Promise<Option[]> {
  const spec = await readSpec(connection)
  const names = componentKinds.flatMap((kind) => membersOf(spec, kind).map((component) => textAt(component, 'name')))
  return [{ label: 'All components', value: wholeApp }, ...names.map((name) => ({ label: name, value: name }))]
}

const membersOf = (holder: unknown, name: string) => listAt({ list: at(holder, name) ?? [] }, 'list')

/** The object that holds the target's variables: the app or one of its components. */
function holderOf(spec: Json, component: string | undefined): unknown {
  if (component === wholeApp) return spec
  const all = componentKinds.flatMap((kind) => membersOf(spec, kind))
  const found = all.find((candidate) => at(candidate, 'name') === component)
  if (found === undefined)
    throw new VendorFault('gone', 'The app has no component with this name.', { field: 'component' })
  return found
}

function withEnvs(spec: Json, component: string | undefined, envs: readonly unknown[]): Json {
  if (component === wholeApp) return { ...spec, envs }
  const changed = componentKinds
    .filter((kind) => spec[kind] !== undefined)
    .map((kind) => [
      kind,
      membersOf(spec, kind).map((member) =>
        at(member, 'name') === component ? { ...objectAt(member), envs } : member,
      ),
    ])
  return { ...spec, ...Object.fromEntries(changed) }
}

const isSealed = (value: string) => /^EV\[\d+:/.test(value)

/** Encryption uses a new nonce each time, so the ciphertext changes with every write of the value, and only then. */
function markOf(env: unknown): { mark?: string } {
  const value = maybeTextAt(env, 'value') ?? ''
  return isSealed(value) ? { mark: createHash('sha256').update(value).digest('base64url') } : {}
}

async function* list(connection: Connection): AsyncIterable<RemoteItem> {
  const holder = holderOf(await readSpec(connection), connection.target.component)
  for (const env of membersOf(holder, 'envs')) {
    const value = maybeTextAt(env, 'value') ?? ''
    yield { name: textAt(env, 'key'), ...markOf(env), ...(!isSealed(value) && { value }) }
  }
}

/** The variable's entry after the op; undefined if it is deleted. */
function changed(connection: Connection, op: Op, existing: unknown): Json | undefined {
  if (op.kind === 'delete') return undefined
  const fresh = { key: op.name, scope: connection.options.scope ?? 'RUN_AND_BUILD_TIME' }
  return { ...(existing === undefined ? fresh : objectAt(existing)), type: 'SECRET', value: op.value }
}

function isTaken(op: Op, existing: unknown): boolean {
  const value = maybeTextAt(existing, 'value') ?? ''
  return op.kind === 'create' && existing !== undefined && !isSealed(value) && value !== op.value
}

async function* apply(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const { component } = connection.target
  const spec = await readSpec(connection)
  const before = membersOf(holderOf(spec, component), 'envs')
  const find = (name: string) => before.find((env) => at(env, 'key') === name)

  const taken = ops.filter((op) => isTaken(op, find(op.name)))
  for (const { name } of taken) {
    yield { name, fault: new VendorFault('conflict', 'The app already has a variable with this name.') }
  }
  const due = new Map(ops.filter((op) => !taken.includes(op)).map((op) => [op.name, op]))
  const kept = before.flatMap((env) => {
    const op = due.get(textAt(env, 'key'))
    return op === undefined ? [env] : (changed(connection, op, env) ?? [])
  })
  const added = [...due.values()].flatMap((op) =>
    find(op.name) === undefined ? (changed(connection, op, undefined) ?? []) : [],
  )
  const hasWork = [...due.values()].some((op) => op.kind !== 'delete' || find(op.name) !== undefined)
  const after = hasWork ? await writeSpec(connection, withEnvs(spec, component, [...kept, ...added])) : []
  for (const name of due.keys()) yield { name, ...markOf(after.find((env) => at(env, 'key') === name)) }
}

async function writeSpec(connection: Connection, spec: Json): Promise<readonly unknown[]> {
  const { json } = await send(connection, appUrl(connection), { method: 'PUT', json: { spec } })
  return membersOf(holderOf(objectAt(json, 'app', 'spec'), connection.target.component), 'envs')
}

const scopes = `app:read, app:update, account:read
For an app with an attached database also: database:read, database:view_credentials`

export const digitaloceanApps: Provider = {
  slug: 'digitalocean-apps',
  name: 'DigitalOcean App Platform',
  website: 'https://www.digitalocean.com/products/app-platform',
  docs: 'https://docs.digitalocean.com/reference/api/reference/apps/#apps_update',
  glyph: { text: 'DO', colour: '#0050d0' },
  notes: [
    'Each push writes the spec of the app and deploys it.',
    'DigitalOcean has no call for a single variable: a change of the spec by somebody else during a push can be lost.',
    'Variables are written as secrets, which cannot be read back. Changes by others are detected by the encrypted text.',
    'Values that contain ${ or start with EV[ are refused, because DigitalOcean would interpret them.',
    'DigitalOcean documents neither a size limit for values nor whether they may be empty. Values over 64 KB and empty values are not pushed.',
  ],
  capabilities: {
    read: 'mark',
    bulk: 1_000,
    mixes: true,
    guard: 'version',
    deploysOnPush: true,
    defaultMode: 'per-key',
  },
  limits: {
    name: /^[_A-Za-z][_A-Za-z0-9]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    refuseValue(value) {
      if (value.includes('${')) return 'contains ${, which DigitalOcean would replace with another variable.'
      return isSealed(value) ? 'starts with EV[, like values that DigitalOcean has encrypted.' : undefined
    },
    rate: { perSecond: 1.25, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'scopes',
      label: 'Scopes of the token',
      description: 'Create a token with custom scopes under API, Tokens.',
      language: 'text',
      text: () => scopes,
    },
    { kind: 'password', id: 'token', label: 'Personal access token', placeholder: 'dop_v1_…' },
  ],
  async verify(connection) {
    const { status, json } = await send(connection, `${api}/account`, { method: 'GET', accept: [403] })
    if (status !== 403) return textAt(json, 'account', 'email')
    await send(connection, `${api}/apps?per_page=1`, { method: 'GET' })
    return 'DigitalOcean'
  },
  target: [
    {
      kind: 'select',
      id: 'app',
      label: 'App',
      options: (connection) => unlessForbidden(listApps(connection)),
      check: (value) =>
        /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value) ? undefined : 'is not the id of an app.',
    },
    {
      kind: 'select',
      id: 'component',
      label: 'Component',
      after: ['app'],
      options: (connection) => unlessForbidden(listComponents(connection)),
      check: (value) =>
        /^(\*|[a-z][a-z0-9-]{0,30}[a-z0-9])$/.test(value)
          ? undefined
          : 'is not the name of a component, nor * for all.',
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'scope',
      label: 'New variables are available at',
      defaultValue: 'RUN_AND_BUILD_TIME',
      options: [
        { label: 'Build and run', value: 'RUN_AND_BUILD_TIME' },
        { label: 'Run', value: 'RUN_TIME' },
        { label: 'Build', value: 'BUILD_TIME' },
      ],
    },
  ],
  describeTarget: ({ app = '', component = '' }) => ({
    label: component === wholeApp ? app : `${app}, ${component}`,
    fingerprint: `${app} ${component}`,
  }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => list(connection),
    apply: (ops) => apply(connection, ops),
  }),
}
