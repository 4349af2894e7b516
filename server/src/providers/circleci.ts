/** CircleCI environment variables of a project, or of a context that several projects share. */
import { offering } from './offered-options.ts'
import { applyEach } from './one-by-one.ts'
import type { Connection, Op, Option, Provider, Remote, RemoteItem } from './provider.ts'
import { baseUrlField, baseUrlOf } from './self-hosted.ts'
import { listAt, maybeTextAt, textAt } from './vendor-json.ts'

const cloud = 'https://circleci.com'
const apiOf = ({ credential }: Connection) => `${baseUrlOf(credential.baseUrl, cloud)}/api/v2`
const headersOf = ({ credential }: Connection) => ({ 'circle-token': credential.token ?? '' })
const isContext = ({ target }: Connection) => target.kind === 'context'

function variablesUrl(connection: Connection): string {
  const { project = '', context = '' } = connection.target
  if (isContext(connection)) return `${apiOf(connection)}/context/${context}/environment-variable`
  return `${apiOf(connection)}/project/${project.split('/').map(encodeURIComponent).join('/')}/envvar`
}

async function* listItems(connection: Connection, url: string): AsyncIterable<unknown> {
  let token: string | undefined
  do {
    const page = token === undefined ? '' : `${url.includes('?') ? '&' : '?'}page-token=${encodeURIComponent(token)}`
    const { json } = await connection.http.send({ method: 'GET', url: `${url}${page}`, headers: headersOf(connection) })
    yield* listAt(json, 'items')
    token = maybeTextAt(json, 'next_page_token')
  } while (token !== undefined && token !== '')
}

async function* listOrganizations(connection: Connection): AsyncIterable<Option> {
  const url = `${apiOf(connection)}/me/collaborations`
  const { json } = await connection.http.send({ method: 'GET', url, headers: headersOf(connection) })
  for (const item of listAt(json)) {
    const value = maybeTextAt(item, 'id')
    if (value !== undefined) yield { label: textAt(item, 'name'), value }
  }
}

async function* listContexts(connection: Connection): AsyncIterable<Option> {
  const url = `${apiOf(connection)}/context?owner-id=${encodeURIComponent(connection.target.organization ?? '')}`
  for await (const item of listItems(connection, url)) yield { label: textAt(item, 'name'), value: textAt(item, 'id') }
}

/** A project's list shows the last characters of each value. They are not used as a mark, because marks are stored. */
async function* listVariables(connection: Connection): AsyncIterable<RemoteItem> {
  for await (const item of listItems(connection, variablesUrl(connection))) {
    if (isContext(connection)) yield { name: textAt(item, 'variable'), mark: textAt(item, 'updated_at') }
    else yield { name: textAt(item, 'name') }
  }
}

function openVariables(connection: Connection): Remote {
  const url = variablesUrl(connection)
  const headers = headersOf(connection)

  /** Both calls overwrite an existing variable. */
  async function write(name: string, value: string): Promise<{ mark?: string }> {
    if (!isContext(connection)) {
      await connection.http.send({ method: 'POST', url, headers, json: { name, value } })
      return {}
    }
    const { json } = await connection.http.send({ method: 'PUT', url: `${url}/${name}`, headers, json: { value } })
    const mark = maybeTextAt(json, 'updated_at')
    return mark === undefined ? {} : { mark }
  }

  async function remove(name: string): Promise<void> {
    const { status } = await connection.http.send({ method: 'DELETE', url: `${url}/${name}`, headers, accept: [404] })
    // The variable or its whole project may be missing: the variable is gone only if the list can be read.
    if (status === 404) await connection.http.send({ method: 'GET', url, headers })
  }

  async function perform(op: Op) {
    return op.kind === 'delete' ? void (await remove(op.name)) : write(op.name, op.value)
  }

  return { list: () => listVariables(connection), apply: (ops) => applyEach(ops, perform) }
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const circleci: Provider = {
  slug: 'circleci',
  name: 'CircleCI',
  website: 'https://circleci.com',
  docs: 'https://circleci.com/docs/api/v2/',
  glyph: { text: 'CI', colour: '#343434' },
  notes: [
    'Values cannot be read back. In a context, changes by others are detected by their time. In a project, only deletions are detected.',
    'A variable that somebody creates under the same name between the check and the push is overwritten.',
    'A context variable that somebody else changed is reported and not overwritten, unless the sync repairs drift, may adopt existing entries, or runs manually. In a project, changes are not visible: an update overwrites them.',
    'Jobs that start after the push use the new values.',
    'CircleCI publishes no size limit for values. Coffer refuses values over 64 KiB.',
  ],
  capabilities: {
    read: 'names',
    bulk: 1,
    mixes: false,
    guard: ({ kind }) => (kind === 'context' ? 'version' : 'none'),
    defaultMode: 'per-key',
  },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    rate: { perSecond: 5, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permissions',
      label: 'Create a token',
      description:
        'Project tokens do not work with this API. Use a dedicated machine user to limit the reach of the token.',
      language: 'text',
      text: () => 'User settings, Personal API tokens, Create new token',
    },
    { kind: 'password', id: 'token', label: 'Personal API token', placeholder: 'CCIPAT_…' },
    baseUrlField({
      label: 'Address of CircleCI server',
      description: 'Keep the default for circleci.com.',
      defaultValue: cloud,
      placeholder: 'https://circleci.example.com',
    }),
  ],
  async verify(connection) {
    const { json } = await connection.http.send({
      method: 'GET',
      url: `${apiOf(connection)}/me`,
      headers: headersOf(connection),
    })
    return textAt(json, 'login')
  },
  target: [
    {
      kind: 'select',
      id: 'kind',
      label: 'Variables belong to',
      defaultValue: 'project',
      options: [
        { label: 'A project', value: 'project' },
        { label: 'A context', value: 'context' },
      ],
    },
    {
      kind: 'text',
      id: 'project',
      label: 'Project',
      description: 'The slug from the settings of the project.',
      placeholder: 'gh/acme/shop',
      after: ['kind'],
      when: ({ kind }) => kind !== 'context',
      check: (value) =>
        /^(gh|github|bb|bitbucket|gl|gitlab|circleci)(\/(?!\.)[\w.-]{1,100}){2}$/.test(value)
          ? undefined
          : 'is not a project such as gh/acme/shop.',
    },
    {
      kind: 'select',
      id: 'organization',
      label: 'Organization',
      placeholder: 'Its id, from the settings of the organization',
      after: ['kind'],
      when: ({ kind }) => kind === 'context',
      check: (value) => (uuid.test(value) ? undefined : 'is not the id of an organization.'),
      options: offering(listOrganizations),
    },
    {
      kind: 'select',
      id: 'context',
      label: 'Context',
      after: ['kind', 'organization'],
      when: ({ kind }) => kind === 'context',
      check: (value) => (uuid.test(value) ? undefined : 'is not the id of a context.'),
      options: offering(listContexts),
    },
  ],
  options: [],
  describeTarget({ kind, project = '', context = '' }, credential) {
    const place = kind === 'context' ? `context ${context}` : project
    return { label: place, fingerprint: JSON.stringify([baseUrlOf(credential.baseUrl, cloud), place.toLowerCase()]) }
  },
  normaliseName: (name) => name,
  connect: openVariables,
}
