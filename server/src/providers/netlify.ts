/**
 * Environment variables of a Netlify site or team. A variable has one value per deploy context; the sync writes only
 * its own context. Netlify's call that replaces all contexts is never used.
 */
import { VendorFault } from './fault.ts'
import { unlessForbidden } from './offered-options.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem } from './provider.ts'
import { nextLink, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Variable = {
  readonly key: string
  readonly isSecret: boolean
  readonly mark: string | undefined
  /** The value in the sync's context. */
  readonly own: { readonly id: string; readonly value: string | undefined } | undefined
  readonly others: number
}
type Write = Exclude<Op, { kind: 'delete' }>

const api = 'https://api.netlify.com/api/v1'
/** Values in these contexts can be read at Netlify, so Netlify accepts no secrets there. */
const openContexts = ['all', 'dev', 'dev-server']

const wantsSecret = ({ target, options }: Connection) =>
  options.isSecret !== 'no' && !openContexts.includes(target.context ?? '')

const contextOf = ({ target: { context, branch } }: Connection) =>
  context === 'branch' ? { context, context_parameter: branch } : { context }

function envUrl({ target }: Connection, path = ''): string {
  const site = target.site === 'team' ? '' : `?site_id=${encodeURIComponent(target.site ?? '')}`
  return `${api}/accounts/${encodeURIComponent(target.account ?? '')}/env${path}${site}`
}

function send({ http, credential }: Connection, url: string, request: Omit<VendorRequest, 'url'>) {
  return http.send({ ...request, url, headers: { authorization: `Bearer ${credential.token}` } })
}

async function listPages(connection: Connection, path: string, optionOf: (item: unknown) => Option): Promise<Option[]> {
  const options: Option[] = []
  let url: string | undefined = `${api}${path}`
  while (url !== undefined) {
    const response: VendorResponse = await send(connection, url, { method: 'GET' })
    options.push(...listAt(response.json).map(optionOf))
    url = nextLink(url, response)
  }
  return options
}

function listAccounts(connection: Connection): Promise<Option[]> {
  return listPages(connection, '/accounts', (account) => ({
    label: textAt(account, 'name'),
    value: textAt(account, 'slug'),
  }))
}

async function listSites(connection: Connection): Promise<Option[]> {
  const path = `/${encodeURIComponent(connection.target.account ?? '')}/sites?per_page=100`
  const sites = await listPages(connection, path, (site) => ({
    label: textAt(site, 'name'),
    value: textAt(site, 'id'),
  }))
  return [...sites, { label: 'All sites of the team', value: 'team' }]
}

function readVariable(connection: Connection, item: unknown): Variable {
  const { context, context_parameter } = contextOf(connection)
  const values = listAt(item, 'values')
  const isOwn = (value: unknown) =>
    at(value, 'context') === context && (maybeTextAt(value, 'context_parameter') || undefined) === context_parameter
  const own = values.find(isOwn)
  const isSecret = at(item, 'is_secret') === true
  const isReadable = !isSecret || context === 'dev'
  return {
    key: textAt(item, 'key'),
    isSecret,
    mark: maybeTextAt(item, 'updated_at'),
    own:
      own === undefined
        ? undefined
        : { id: textAt(own, 'id'), value: isReadable ? maybeTextAt(own, 'value') : undefined },
    others: values.length - (own === undefined ? 0 : 1),
  }
}

async function readVariables(connection: Connection): Promise<Variable[]> {
  const { json } = await send(connection, envUrl(connection), { method: 'GET' })
  return listAt(json).map((item) => readVariable(connection, item))
}

async function* list(connection: Connection): AsyncIterable<RemoteItem> {
  for (const { key, mark, own } of await readVariables(connection)) {
    if (own === undefined) continue
    yield {
      name: key,
      id: own.id,
      ...(mark !== undefined && { mark }),
      ...(own.value !== undefined && { value: own.value }),
    }
  }
}

function resultOf(connection: Connection, item: unknown): OpResult {
  const { key, mark, own, isSecret } = readVariable(connection, item)
  const isOpen = wantsSecret(connection) && !isSecret
  return {
    name: key,
    ...(own && { id: own.id }),
    ...(mark !== undefined && { mark }),
    ...(isOpen && {
      note: 'The variable existed in other contexts and is not marked as secret, so members can read it at Netlify.',
    }),
  }
}

/** Creates variables that exist in no context yet, in one call. */
async function* createVariables(connection: Connection, ops: readonly Write[]): AsyncIterable<OpResult> {
  if (ops.length === 0) return
  const isSecret = wantsSecret(connection)
  const { json } = await send(connection, envUrl(connection), {
    method: 'POST',
    json: ops.map(({ name, value }) => ({
      key: name,
      is_secret: isSecret,
      // Secrets must not have the post-processing scope, which writes values into pages. Other variables get all scopes
      // by default.
      ...(isSecret && { scopes: ['builds', 'functions', 'runtime'] }),
      values: [{ ...contextOf(connection), value }],
    })),
  })
  const made = listAt(json)
  for (const { name } of ops) {
    const item = made.find((candidate) => at(candidate, 'key') === name)
    const fault = new VendorFault('protocol', 'Netlify did not confirm that the variable was created.')
    yield item === undefined ? { name, fault } : resultOf(connection, item)
  }
}

/** Undefined if there is no variable of this name. */
async function setValue(connection: Connection, { name, value }: Write): Promise<OpResult | undefined> {
  const { status, json } = await send(connection, envUrl(connection, `/${encodeURIComponent(name)}`), {
    method: 'PATCH',
    json: { ...contextOf(connection), value },
    accept: [404],
  })
  return status === 404 ? undefined : resultOf(connection, json)
}

/** Reads the variable again, so that a context added meanwhile is not deleted with it. */
async function remove(connection: Connection, name: string): Promise<OpResult> {
  const path = `/${encodeURIComponent(name)}`
  const { status, json } = await send(connection, envUrl(connection, path), { method: 'GET', accept: [404] })
  const found = status === 404 ? undefined : readVariable(connection, json)
  if (found?.own === undefined) return { name }
  const last = found.others === 0 ? path : `${path}/value/${encodeURIComponent(found.own.id)}`
  await send(connection, envUrl(connection, last), { method: 'DELETE', accept: [404] })
  return { name }
}

async function* apply(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const there = new Map<string, Variable>()
  if (ops.some(({ kind }) => kind === 'create')) {
    for (const variable of await readVariables(connection)) there.set(variable.key, variable)
  }
  const missing: Write[] = []
  for (const op of ops) {
    if (op.kind === 'delete') {
      yield await remove(connection, op.name)
      continue
    }
    const own = there.get(op.name)?.own
    if (op.kind === 'create' && own?.value !== undefined && own.value !== op.value) {
      yield { name: op.name, fault: new VendorFault('conflict', 'The variable already has a value in this context.') }
      continue
    }
    const isKnownToMiss = op.kind === 'create' && !there.has(op.name)
    const result = isKnownToMiss ? undefined : await setValue(connection, op)
    if (result === undefined) missing.push(op)
    else yield result
  }
  yield* createVariables(connection, missing)
}

const contexts: readonly Option[] = [
  { label: 'Production', value: 'production' },
  { label: 'Deploy previews', value: 'deploy-preview' },
  { label: 'Branch deploys', value: 'branch-deploy' },
  { label: 'One branch', value: 'branch' },
  { label: 'Preview servers', value: 'dev-server' },
  { label: 'Local development', value: 'dev' },
  { label: 'All contexts', value: 'all' },
]

export const netlify: Provider = {
  slug: 'netlify',
  name: 'Netlify',
  website: 'https://www.netlify.com',
  docs: 'https://open-api.netlify.com/#tag/environmentVariables',
  glyph: { text: 'N', colour: '#05605e' },
  notes: [
    'New values take effect with the next deploy.',
    'Only the value of the chosen context is written. Values of other contexts stay. A value for all contexts also stays, and is overridden.',
    'Secrets cannot be read back. Changes by others are detected by their time, which Netlify keeps for all contexts of a variable together.',
    'Netlify supports no secrets for all contexts at once and for development: members can read these variables.',
    'Variables for functions share 4 KB. Netlify documents no other limit. Values over 64 KB are not pushed.',
  ],
  capabilities: { read: 'mark', bulk: 50, mixes: false, guard: 'id', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, starting with a letter',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: true,
    rate: { perSecond: 8, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'where',
      label: 'Create a token',
      description:
        'The token has all rights of its account. Use an account that can access only these sites, and let the token expire.',
      language: 'text',
      text: () => 'https://app.netlify.com/user/applications#personal-access-tokens',
    },
    { kind: 'password', id: 'token', label: 'Personal access token', placeholder: 'nfp_…' },
  ],
  async verify(connection) {
    const { json } = await send(connection, `${api}/user`, { method: 'GET' })
    return textAt(json, 'email')
  },
  target: [
    {
      kind: 'select',
      id: 'account',
      label: 'Team',
      options: (connection) => unlessForbidden(listAccounts(connection)),
      check: (value) => (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(value) ? undefined : 'is not the slug of a team.'),
    },
    {
      kind: 'select',
      id: 'site',
      label: 'Site',
      after: ['account'],
      options: (connection) => unlessForbidden(listSites(connection)),
      check: (value) =>
        /^(team|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.test(value) ? undefined : 'is not the id of a site.',
    },
    { kind: 'select', id: 'context', label: 'Deploy context', defaultValue: 'production', options: contexts },
    {
      kind: 'text',
      id: 'branch',
      label: 'Branch',
      isFree: true,
      after: ['context'],
      when: ({ context }) => context === 'branch',
      check: (value) => (/^[^\s\p{Cc}~^:?*[\\]{1,250}$/u.test(value) ? undefined : 'is not the name of a branch.'),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'isSecret',
      label: 'Mark new variables as secret',
      defaultValue: 'yes',
      options: [
        { label: 'Yes: nobody can read them at Netlify', value: 'yes' },
        { label: 'No: members can read them at Netlify', value: 'no' },
      ],
    },
  ],
  describeTarget: ({ account = '', site = '', context = '', branch = '' }) => ({
    label: [site === 'team' ? account : site, context, branch].filter((part) => part !== '').join(', '),
    fingerprint: JSON.stringify(site === 'team' ? [account, context, branch] : [site, context, branch]),
  }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => list(connection),
    apply: (ops) => apply(connection, ops),
  }),
}
