/** Secured variables of Bitbucket Pipelines, of a repository or of one of its deployment environments. */
import { VendorFault } from './fault.ts'
import { offering } from './offered-options.ts'
import { applyEach } from './one-by-one.ts'
import type { Connection, Op, Option, Provider, Remote } from './provider.ts'
import { sameOrigin } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

const api = 'https://api.bitbucket.org/2.0'

/** A token of a repository, project or workspace is used alone; a personal token needs the person's email address. */
function headersOf({ credential: { email = '', token = '' } }: Connection) {
  const basic = Buffer.from(`${email}:${token}`).toString('base64')
  return { authorization: email === '' ? `Bearer ${token}` : `Basic ${basic}` }
}

const repositoryUrl = ({ target: { workspace = '', repository = '' } }: Connection) =>
  `${api}/repositories/${encodeURIComponent(workspace)}/${encodeURIComponent(repository)}`

function variablesUrl(connection: Connection): string {
  const { kind, environment = '' } = connection.target
  const url = repositoryUrl(connection)
  if (kind !== 'deployment') return `${url}/pipelines_config/variables`
  return `${url}/deployments_config/environments/${encodeURIComponent(environment)}/variables`
}

async function* listItems(connection: Connection, url: string): AsyncIterable<unknown> {
  let next: string | undefined = `${url}?pagelen=100`
  while (next !== undefined) {
    const { json } = await connection.http.send({ method: 'GET', url: next, headers: headersOf(connection) })
    yield* listAt(json, 'values')
    const link = maybeTextAt(json, 'next')
    next = link === undefined ? undefined : sameOrigin(url, link)
  }
}

async function* listRepositories(connection: Connection): AsyncIterable<Option> {
  const url = `${api}/repositories/${encodeURIComponent(connection.target.workspace ?? '')}`
  for await (const item of listItems(connection, url))
    yield { label: textAt(item, 'name'), value: textAt(item, 'slug') }
}

async function* listEnvironments(connection: Connection): AsyncIterable<Option> {
  for await (const item of listItems(connection, `${repositoryUrl(connection)}/environments`)) {
    yield { label: textAt(item, 'name'), value: textAt(item, 'uuid') }
  }
}

async function* listVariables(connection: Connection) {
  for await (const item of listItems(connection, variablesUrl(connection))) {
    yield { name: textAt(item, 'key'), id: textAt(item, 'uuid'), isSecured: at(item, 'secured') === true }
  }
}

function openVariables(connection: Connection): Remote {
  const { http } = connection
  const url = variablesUrl(connection)
  const headers = headersOf(connection)
  const one = (id: string) => `${url}/${encodeURIComponent(id)}`
  /** Names re-created by an update of this run; the response to that may have been lost. */
  const remade = new Set<string>()

  async function* list() {
    for await (const { name, id } of listVariables(connection)) yield { name, id }
  }

  async function find(name: string) {
    for await (const item of listVariables(connection)) if (item.name === name) return item
    return undefined
  }

  /** Undefined if the variable no longer exists. */
  async function put(id: string, name: string, value: string) {
    const json = { key: name, value, secured: true }
    const { status } = await http.send({ method: 'PUT', url: one(id), headers, json, accept: [404] })
    return status === 404 ? undefined : { id }
  }

  /** Undefined if a variable of this name already exists. */
  async function post(name: string, value: string) {
    const json = { key: name, value, secured: true }
    const response = await http.send({ method: 'POST', url, headers, json, accept: [409] })
    return response.status === 409 ? undefined : { id: textAt(response.json, 'uuid') }
  }

  const create = async (name: string, value: string) => (await post(name, value)) ?? takeOver(name, value)

  /**
   * The variable is ours if an earlier response was lost. Bitbucket has no place for an owner mark, but all of ours are
   * secured.
   */
  async function takeOver(name: string, value: string) {
    const found = await find(name)
    const done = found?.isSecured ? await put(found.id, name, value) : undefined
    if (done === undefined) throw taken()
    return done
  }

  const taken = () => new VendorFault('conflict', 'A variable with this name already exists.')

  /** A missing id means that our variable was deleted: one with the same name then belongs to somebody else. */
  async function update(name: string, value: string, knownId: string | undefined) {
    const id = knownId ?? (await find(name))?.id
    const done = id === undefined ? undefined : await put(id, name, value)
    if (done) return done
    if (id === undefined || remade.has(name)) return create(name, value)
    remade.add(name)
    const made = await post(name, value)
    if (made === undefined) throw taken()
    return made
  }

  async function remove(name: string, knownId: string | undefined): Promise<void> {
    const id = knownId ?? (await find(name))?.id
    if (id === undefined) return
    const { status } = await http.send({ method: 'DELETE', url: one(id), headers, accept: [404] })
    // The vendor also answers 404 if the token lacks the right, so check the list.
    if (status === 404 && (await find(name))?.id === id) {
      throw new VendorFault('scope', 'The token may read this variable but not delete it.')
    }
  }

  async function perform(op: Op) {
    if (op.kind === 'create') return create(op.name, op.value)
    if (op.kind === 'update') return update(op.name, op.value, op.id)
    return void (await remove(op.name, op.id))
  }

  return { list, apply: (ops) => applyEach(ops, perform) }
}

const isSlug = (what: string) => (value: string) =>
  /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/.test(value) ? undefined : `is not ${what}.`

export const bitbucketPipelines: Provider = {
  slug: 'bitbucket-pipelines',
  name: 'Bitbucket Pipelines',
  website: 'https://bitbucket.org/product/features/pipelines',
  docs: 'https://developer.atlassian.com/cloud/bitbucket/rest/api-group-pipelines/',
  glyph: { text: 'BB', colour: '#0052cc' },
  notes: [
    'Every variable is stored as secured. It cannot be read back, and changes by others are not detected.',
    'A secured variable that somebody creates under the same name between the check and the first push is overwritten.',
    'A variable of a deployment overrides the repository variable of the same name. Pipelines must be enabled for the repository.',
    'Bitbucket Pipelines does not support line breaks in values.',
    'Atlassian publishes no size limit for values. Coffer refuses values over 64 KiB.',
    'Atlassian allows about 1,000 calls an hour, and each changed variable needs one call.',
  ],
  capabilities: { read: 'names', bulk: 1, mixes: false, guard: 'precondition', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    refuseValue: (value) =>
      /[\r\n]/.test(value)
        ? 'contains a line break, which Bitbucket Pipelines does not support: encode the value first.'
        : undefined,
    rate: { perSecond: 1, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permissions',
      label: 'Create an access token',
      description:
        'A repository token reaches nothing else. The token of a person also needs the person’s email address.',
      language: 'text',
      text: () =>
        [
          'Repository settings, Access tokens: Repositories: Read, Pipelines: Edit variables',
          'or Atlassian account, Security, API token with scopes: read:repository:bitbucket, read:pipeline:bitbucket, admin:pipeline:bitbucket',
        ].join('\n'),
    },
    {
      kind: 'text',
      id: 'email',
      label: 'Email address',
      description: 'Only for the API token of a person.',
      isOptional: true,
      placeholder: 'ops@example.com',
      check: (value) => (/^[^\s:@]+@[^\s:@]+$/.test(value) ? undefined : 'is not an email address.'),
    },
    { kind: 'password', id: 'token', label: 'Access token or API token' },
  ],
  /** A token that may not read its own account can still be valid. */
  async verify(connection) {
    const headers = headersOf(connection)
    const { json } = await connection.http.send({ method: 'GET', url: `${api}/user`, headers, accept: [403, 404] })
    return maybeTextAt(json, 'display_name') ?? (connection.credential.email || 'access token')
  },
  target: [
    {
      kind: 'select',
      id: 'kind',
      label: 'Variables belong to',
      defaultValue: 'repository',
      options: [
        { label: 'A repository', value: 'repository' },
        { label: 'A deployment environment of a repository', value: 'deployment' },
      ],
    },
    {
      kind: 'text',
      id: 'workspace',
      label: 'Workspace',
      description: 'The name in the address of the repository.',
      check: isSlug('the name of a workspace'),
    },
    {
      kind: 'select',
      id: 'repository',
      label: 'Repository',
      after: ['workspace'],
      check: isSlug('the name of a repository'),
      options: offering(listRepositories),
    },
    {
      kind: 'select',
      id: 'environment',
      label: 'Deployment environment',
      placeholder: '{…}, its uuid',
      after: ['kind', 'workspace', 'repository'],
      when: ({ kind }) => kind === 'deployment',
      check: (value) => (/^\{[0-9a-f-]{36}\}$/i.test(value) ? undefined : 'is not the uuid of an environment.'),
      options: offering(listEnvironments),
    },
  ],
  options: [],
  describeTarget({ kind, workspace = '', repository = '', environment = '' }) {
    const place = `${workspace}/${repository}`
    const label = kind === 'deployment' ? `${place} ${environment}` : place
    return { label, fingerprint: label.toLowerCase() }
  },
  normaliseName: (name) => name,
  connect: openVariables,
}
