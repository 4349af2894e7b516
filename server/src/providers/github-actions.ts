/**
 * GitHub Actions secrets of a repository, one of its environments or an organization. One call per secret, encrypted by
 * us.
 */
import { isFault } from './fault.ts'
import { offering } from './offered-options.ts'
import { applyEach, findFew } from './one-by-one.ts'
import type { Connection, Op, Option, Provider, Remote, RemoteItem, Values } from './provider.ts'
import { sealBox } from './sealed-box.ts'
import { baseUrlField, baseUrlOf } from './self-hosted.ts'
import { faultOf, nextLink, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Key = { readonly id: string; readonly publicKey: string }

function apiOf({ baseUrl }: Values): string {
  const origin = baseUrlOf(baseUrl, 'https://github.com')
  return origin === 'https://github.com' ? 'https://api.github.com' : `${origin}/api/v3`
}

const headersOf = ({ credential }: Connection) => ({
  accept: 'application/vnd.github+json',
  authorization: `Bearer ${credential.token}`,
  'x-github-api-version': '2022-11-28',
})

const repositoryPath = (repository = '') => `/repos/${repository.split('/').map(encodeURIComponent).join('/')}`

/** Each scope has its own list and its own public key. */
function secretsUrl({ credential, target }: Connection): string {
  const { scope, repository, environment = '', organization = '' } = target
  const api = apiOf(credential)
  if (scope === 'organization') return `${api}/orgs/${encodeURIComponent(organization)}/actions/secrets`
  if (scope === 'environment') {
    return `${api}${repositoryPath(repository)}/environments/${encodeURIComponent(environment)}/secrets`
  }
  return `${api}${repositoryPath(repository)}/actions/secrets`
}

/** A secondary limit may come without the headers of a limit; the credential is fine then. */
const sort = ({ status, json }: VendorResponse) =>
  status === 403 && /\brate limit\b/i.test(maybeTextAt(json, 'message') ?? '') ? ('rate' as const) : undefined

const send = ({ http }: Connection, request: VendorRequest) => http.send({ ...request, sort })

const get = (connection: Connection, url: string) =>
  send(connection, { method: 'GET', url, headers: headersOf(connection) })

async function* listPages(connection: Connection, url: string): AsyncIterable<unknown> {
  let next: string | undefined = `${url}?per_page=100`
  while (next !== undefined) {
    const response = await get(connection, next)
    yield response.json
    next = nextLink(next, response)
  }
}

async function* listRepositories(connection: Connection): AsyncIterable<Option> {
  for await (const page of listPages(connection, `${apiOf(connection.credential)}/user/repos`)) {
    for (const item of listAt(page)) yield { label: textAt(item, 'full_name'), value: textAt(item, 'full_name') }
  }
}

async function* listEnvironments(connection: Connection): AsyncIterable<Option> {
  const url = `${apiOf(connection.credential)}${repositoryPath(connection.target.repository)}/environments`
  for await (const page of listPages(connection, url)) {
    for (const item of listAt(page, 'environments')) yield { label: textAt(item, 'name'), value: textAt(item, 'name') }
  }
}

async function* listOrganizations(connection: Connection): AsyncIterable<Option> {
  for await (const page of listPages(connection, `${apiOf(connection.credential)}/user/orgs`)) {
    for (const item of listAt(page)) yield { label: textAt(item, 'login'), value: textAt(item, 'login') }
  }
}

/** For a fine-grained token this list is always empty, so the person types the name. */
async function offerOrganizations(connection: Connection): Promise<readonly Option[] | undefined> {
  const options = await offering(listOrganizations)(connection)
  return options?.length === 0 ? undefined : options
}

async function* listSecrets(connection: Connection): AsyncIterable<RemoteItem> {
  for await (const page of listPages(connection, secretsUrl(connection))) {
    for (const item of listAt(page, 'secrets')) yield { name: textAt(item, 'name'), mark: textAt(item, 'updated_at') }
  }
}

/** Every write of an organization's secret must say which repositories may use it. */
async function readAudience(connection: Connection): Promise<Record<string, unknown>> {
  const { scope, visibility = 'private', repositories = '', organization } = connection.target
  if (scope !== 'organization') return {}
  if (visibility !== 'selected') return { visibility }
  const ids: number[] = []
  for (const name of repositories.split(',')) {
    const url = `${apiOf(connection.credential)}${repositoryPath(`${organization}/${name.trim()}`)}`
    ids.push(Number(textAt((await get(connection, url)).json, 'id')))
  }
  return { visibility, selected_repository_ids: ids }
}

function openSecrets(connection: Connection): Remote {
  const url = secretsUrl(connection)
  const headers = headersOf(connection)
  let key: Key | undefined
  let audience: Record<string, unknown> | undefined

  async function fetchKey(): Promise<Key> {
    const { json } = await get(connection, `${url}/public-key`)
    return { id: textAt(json, 'key_id'), publicKey: textAt(json, 'key') }
  }

  async function put(name: string, value: string, { id, publicKey }: Key) {
    const json = { encrypted_value: await sealBox(value, publicKey), key_id: id, ...audience }
    return send(connection, { method: 'PUT', url: `${url}/${name}`, headers, json, accept: [422] })
  }

  async function write(name: string, value: string): Promise<void> {
    key ??= await fetchKey()
    audience ??= await readAudience(connection)
    const response = await put(name, value, key)
    if (response.status !== 422) return
    // GitHub replaces its keys at times. If the key is unchanged, the secret itself was refused.
    const fresh = await fetchKey()
    const again = fresh.id === key.id ? response : await put(name, value, fresh)
    key = fresh
    if (again.status === 422) throw faultOf(again, connection.now())
  }

  /** The response to a write is empty. A mark that cannot be read now is read with the next list. */
  async function readMark(name: string): Promise<{ mark?: string }> {
    try {
      return { mark: textAt((await get(connection, `${url}/${name}`)).json, 'updated_at') }
    } catch (error) {
      if (isFault(error)) return {}
      throw error
    }
  }

  async function remove(name: string): Promise<void> {
    const { status } = await send(connection, { method: 'DELETE', url: `${url}/${name}`, headers, accept: [404] })
    // GitHub also answers 404 if the token lacks the right: the secret is gone only if the list can be read.
    if (status === 404) await get(connection, `${url}?per_page=1`)
  }

  async function perform(op: Op) {
    if (op.kind === 'delete') return void (await remove(op.name))
    await write(op.name, op.value)
    return readMark(op.name)
  }

  async function findOne(name: string): Promise<RemoteItem | undefined> {
    const request = { method: 'GET', url: `${url}/${name}`, headers, accept: [404] } as const
    const { status, json } = await send(connection, request)
    return status === 404 ? undefined : { name, mark: textAt(json, 'updated_at') }
  }

  const list = () => listSecrets(connection)
  return {
    list,
    find: (entries) => findFew(entries, ({ name }) => findOne(name)),
    apply: (ops) => applyEach(ops, perform),
  }
}

const isNamed = (pattern: RegExp, what: string) => (value: string) =>
  pattern.test(value) ? undefined : `is not ${what}.`

export const githubActions: Provider = {
  slug: 'github-actions',
  name: 'GitHub Actions',
  website: 'https://github.com/features/actions',
  docs: 'https://docs.github.com/en/rest/actions/secrets',
  glyph: { text: 'GH', colour: '#24292f' },
  notes: [
    'Names are stored in upper case. Two keys that differ only in case cannot both be synced.',
    'Values cannot be read back. Changes by others are detected by their time, to the second.',
    'A repository or an environment has at most 100 secrets, an organization 1,000.',
    'A secret of an environment overrides the repository secret of the same name, which overrides the one of the organization.',
    'Jobs that start after the push use the new values.',
  ],
  capabilities: { read: 'mark', bulk: 1, mixes: false, guard: 'version', defaultMode: 'per-key' },
  limits: {
    name: /^(?!GITHUB_)[A-Z_][A-Z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit or GITHUB_',
    valueMaxBytes: 48 * 1024,
    allowsEmpty: false,
    maxItems: ({ scope }) => (scope === 'organization' ? 1_000 : 100),
    foldsCase: true,
    // Each write is followed by a read, which gives the one write per second that GitHub asks for.
    rate: { perSecond: 2, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permissions',
      label: 'Create a fine-grained token',
      description:
        'Open Settings, Developer settings, Fine-grained tokens. Select only the repositories of this sync and only these permissions.',
      language: 'text',
      text: () =>
        [
          'Repository secrets: Repository permissions, Secrets: Read and write',
          'Environment secrets: Repository permissions, Environments: Read and write; Actions: Read-only to choose from a list',
          'Organization secrets: Organization permissions, Secrets: Read and write',
        ].join('\n'),
    },
    { kind: 'password', id: 'token', label: 'Fine-grained token', placeholder: 'github_pat_…' },
    baseUrlField({
      label: 'Address of GitHub Enterprise Server',
      description: 'Leave it empty for github.com.',
      placeholder: 'https://github.example.com',
    }),
  ],
  async verify(connection) {
    const { json } = await get(connection, `${apiOf(connection.credential)}/user`)
    return textAt(json, 'login')
  },
  target: [
    {
      kind: 'select',
      id: 'scope',
      label: 'Secrets belong to',
      defaultValue: 'repository',
      options: [
        { label: 'A repository', value: 'repository' },
        { label: 'An environment of a repository', value: 'environment' },
        { label: 'An organization', value: 'organization' },
      ],
    },
    {
      kind: 'select',
      id: 'repository',
      label: 'Repository',
      placeholder: 'owner/name',
      after: ['scope'],
      when: ({ scope }) => scope !== 'organization',
      check: isNamed(
        /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/,
        'a repository such as owner/name',
      ),
      options: offering(listRepositories),
    },
    {
      kind: 'select',
      id: 'environment',
      label: 'Environment',
      after: ['scope', 'repository'],
      when: ({ scope }) => scope === 'environment',
      check: isNamed(/^(?!\.{1,2}$)\P{Cc}{1,255}$/u, 'the name of an environment'),
      options: offering(listEnvironments),
    },
    {
      kind: 'select',
      id: 'organization',
      label: 'Organization',
      after: ['scope'],
      when: ({ scope }) => scope === 'organization',
      check: isNamed(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/, 'the name of an organization'),
      options: offerOrganizations,
    },
    {
      kind: 'select',
      id: 'visibility',
      label: 'Repositories that may use the secrets',
      isStored: true,
      defaultValue: 'private',
      after: ['scope'],
      when: ({ scope }) => scope === 'organization',
      options: [
        { label: 'Private and internal repositories', value: 'private' },
        { label: 'All', value: 'all' },
        { label: 'The repositories named below', value: 'selected' },
      ],
    },
    {
      kind: 'text',
      id: 'repositories',
      label: 'Names of repositories',
      isFree: true,
      isStored: true,
      description: 'Without the organization, separated by commas. Each push replaces the list.',
      placeholder: 'shop, billing',
      after: ['scope', 'visibility'],
      when: ({ scope, visibility }) => scope === 'organization' && visibility === 'selected',
      check: isNamed(
        /^ *(?!\.{1,2} *(,|$))[\w.-]{1,100}( *, *(?!\.{1,2} *(,|$))[\w.-]{1,100})* *$/,
        'a list of repositories, separated by commas',
      ),
    },
  ],
  options: [],
  describeTarget({ scope, repository = '', environment = '', organization = '' }, credential) {
    const place = scope === 'organization' ? organization : repository
    const label = scope === 'environment' ? `${repository} (${environment})` : place
    // All of these names are case-insensitive at GitHub.
    const parts = [apiOf(credential), scope, place, scope === 'environment' ? environment : '']
    return { label, fingerprint: JSON.stringify(parts).toLowerCase() }
  },
  normaliseName: (name) => name.toUpperCase(),
  connect: openSecrets,
}
