/** Variables of a Terraform workspace or variable set (HCP Terraform, Terraform Enterprise), always sensitive. */
import { VendorFault } from './fault.ts'
import { offering } from './offered-options.ts'
import { applyEach, findFew } from './one-by-one.ts'
import {
  type Connection,
  type KnownItem,
  type Op,
  type Option,
  ownerText,
  type Provider,
  type Remote,
  type RemoteItem,
} from './provider.ts'
import { baseUrlField, baseUrlOf } from './self-hosted.ts'
import { faultOf, sameOrigin, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

const hcp = 'https://app.terraform.io'
const apiOf = ({ credential }: Connection) => `${baseUrlOf(credential.baseUrl, hcp)}/api/v2`
/** Syncs of earlier versions have the category among their options. */
const categoryOf = ({ target, options }: Pick<Connection, 'target' | 'options'>) =>
  (target.category ?? options.category) === 'terraform' ? 'terraform' : 'env'
const headersOf = ({ credential }: Connection) => ({
  authorization: `Bearer ${credential.token}`,
  'content-type': 'application/vnd.api+json',
})

function variablesUrl(connection: Connection): string {
  const { kind, workspace = '', variableSet = '' } = connection.target
  if (kind === 'variableSet') return `${apiOf(connection)}/varsets/${variableSet}/relationships/vars`
  return `${apiOf(connection)}/workspaces/${workspace}/vars`
}

async function* listItems(connection: Connection, url: string): AsyncIterable<unknown> {
  let next: string | undefined = `${url}?page%5Bsize%5D=100`
  while (next !== undefined) {
    const { json } = await connection.http.send({ method: 'GET', url: next, headers: headersOf(connection) })
    yield* listAt(json, 'data')
    const link = maybeTextAt(json, 'links', 'next')
    next = link === undefined ? undefined : sameOrigin(url, link)
  }
}

async function* listOrganizations(connection: Connection): AsyncIterable<Option> {
  for await (const item of listItems(connection, `${apiOf(connection)}/organizations`)) {
    yield { label: textAt(item, 'id'), value: textAt(item, 'id') }
  }
}

const listOf = (what: 'workspaces' | 'varsets') =>
  async function* (connection: Connection): AsyncIterable<Option> {
    const organization = encodeURIComponent(connection.target.organization ?? '')
    for await (const item of listItems(connection, `${apiOf(connection)}/organizations/${organization}/${what}`)) {
      yield { label: textAt(item, 'attributes', 'name'), value: textAt(item, 'id') }
    }
  }

function itemOf(connection: Connection, variable: unknown): RemoteItem & { readonly id: string } {
  const mark = maybeTextAt(variable, 'attributes', 'version-id')
  return {
    name: textAt(variable, 'attributes', 'key'),
    id: textAt(variable, 'id'),
    ...(mark !== undefined && { mark }),
    isOurs: at(variable, 'attributes', 'description') === ownerText(connection.syncId),
  }
}

/** A key may exist once in each category; only those of our category count. */
async function* listVariables(connection: Connection) {
  for await (const variable of listItems(connection, variablesUrl(connection))) {
    if (at(variable, 'attributes', 'category') === categoryOf(connection)) yield itemOf(connection, variable)
  }
}

const isTaken = ({ status, json }: VendorResponse) =>
  status === 422 && /already been taken/i.test(JSON.stringify(at(json, 'errors') ?? ''))

function openVariables(connection: Connection): Remote {
  const url = variablesUrl(connection)
  const headers = headersOf(connection)

  async function find(name: string) {
    for await (const item of listVariables(connection)) if (item.name === name) return item
    return undefined
  }

  const resultOf = (response: VendorResponse) => {
    const { id, mark } = itemOf(connection, at(response.json, 'data'))
    return { id, ...(mark !== undefined && { mark }) }
  }

  /** Undefined if the variable no longer exists. */
  async function patch(id: string, value: string) {
    const json = { data: { id, type: 'vars', attributes: { value, sensitive: true, hcl: false } } }
    const response = await connection.http.send({ method: 'PATCH', url: `${url}/${id}`, headers, json, accept: [404] })
    return response.status === 404 ? undefined : resultOf(response)
  }

  async function create(name: string, value: string) {
    const category = categoryOf(connection)
    const description = ownerText(connection.syncId)
    const attributes = { key: name, value, description, category, hcl: false, sensitive: true }
    const json = { data: { type: 'vars', attributes } }
    const response = await connection.http.send({ method: 'POST', url, headers, json, accept: [422] })
    if (isTaken(response)) return takeOver(name, value)
    if (response.status === 422) throw faultOf(response, connection.now())
    return resultOf(response)
  }

  /** The variable is ours if an earlier response was lost; otherwise it belongs to somebody else. */
  async function takeOver(name: string, value: string) {
    const found = await find(name)
    const done = found?.isOurs ? await patch(found.id, value) : undefined
    if (done === undefined) throw new VendorFault('conflict', 'A variable with this name already exists.')
    return done
  }

  async function update(name: string, value: string, knownId: string | undefined) {
    const id = knownId ?? (await find(name))?.id
    const done = id === undefined ? undefined : await patch(id, value)
    return done ?? create(name, value)
  }

  async function remove(name: string, knownId: string | undefined): Promise<void> {
    const id = knownId ?? (await find(name))?.id
    if (id === undefined) return
    const { status } = await connection.http.send({ method: 'DELETE', url: `${url}/${id}`, headers, accept: [404] })
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

  /** Somebody may have re-created the variable under another id, which only the list shows. */
  async function findOne({ name, id }: KnownItem) {
    if (id === undefined) return find(name)
    const { status, json } = await connection.http.send({ method: 'GET', url: `${url}/${id}`, headers, accept: [404] })
    return status === 404 ? find(name) : itemOf(connection, at(json, 'data'))
  }

  const list = () => listVariables(connection)
  return { list, find: (entries) => findFew(entries, findOne), apply: (ops) => applyEach(ops, perform) }
}

const isId = (pattern: RegExp, what: string) => (value: string) => (pattern.test(value) ? undefined : `is not ${what}.`)

export const terraformCloud: Provider = {
  slug: 'terraform-cloud',
  name: 'Terraform',
  website: 'https://www.hashicorp.com/products/terraform',
  docs: 'https://developer.hashicorp.com/terraform/cloud-docs/api-docs/workspace-variables',
  glyph: { text: 'TF', colour: '#7b42bc' },
  notes: [
    'Every variable is stored as sensitive and cannot be read back. Changes by others are detected by the version.',
    'Values are literal, never HCL.',
    'Runs that start after the push use the new values. A push starts no run.',
    'Terraform returns the same error for missing and for inaccessible resources.',
  ],
  capabilities: {
    read: 'mark',
    bulk: 1,
    mixes: false,
    ownerMark: 'description',
    guard: 'mark',
    defaultMode: 'per-key',
  },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_-]*$/,
    nameHint: 'letters, digits, underscores and hyphens, not starting with a digit or a hyphen',
    nameMax: 128,
    valueMaxBytes: 256 * 1024,
    allowsEmpty: true,
    rate: { perSecond: 10, concurrency: 2 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permissions',
      label: 'Create a team token',
      description: 'Use a dedicated team and an expiring token to limit the reach of the credential.',
      language: 'text',
      text: () =>
        [
          'Workspace variables: Workspace, Settings, Team access: custom permissions, Variables: Read and write',
          'Variable sets: Organization, Settings, Teams: Manage variable sets',
        ].join('\n'),
    },
    { kind: 'password', id: 'token', label: 'API token' },
    baseUrlField({
      label: 'Address of Terraform Enterprise',
      description: 'Keep the default for HCP Terraform.',
      defaultValue: hcp,
      placeholder: 'https://terraform.example.com',
    }),
  ],
  async verify(connection) {
    const url = `${apiOf(connection)}/account/details`
    const { json } = await connection.http.send({ method: 'GET', url, headers: headersOf(connection) })
    return textAt(json, 'data', 'attributes', 'username')
  },
  target: [
    {
      kind: 'select',
      id: 'kind',
      label: 'Variables belong to',
      defaultValue: 'workspace',
      options: [
        { label: 'A workspace', value: 'workspace' },
        { label: 'A variable set', value: 'variableSet' },
      ],
    },
    {
      kind: 'select',
      id: 'organization',
      label: 'Organization',
      check: isId(/^[A-Za-z0-9_-]{1,100}$/, 'the name of an organization'),
      options: offering(listOrganizations),
    },
    {
      kind: 'select',
      id: 'workspace',
      label: 'Workspace',
      placeholder: 'ws-…',
      after: ['kind', 'organization'],
      when: ({ kind }) => kind !== 'variableSet',
      check: isId(/^ws-[A-Za-z0-9]{1,60}$/, 'the id of a workspace such as ws-1a2b3c4d5e6f7g8h'),
      options: offering(listOf('workspaces')),
    },
    {
      kind: 'select',
      id: 'variableSet',
      label: 'Variable set',
      placeholder: 'varset-…',
      after: ['kind', 'organization'],
      when: ({ kind }) => kind === 'variableSet',
      check: isId(/^varset-[A-Za-z0-9]{1,60}$/, 'the id of a variable set such as varset-1a2b3c4d5e6f7g8h'),
      options: offering(listOf('varsets')),
    },
    {
      kind: 'select',
      id: 'category',
      label: 'Category',
      defaultValue: 'env',
      options: [
        { label: 'Environment variables', value: 'env' },
        { label: 'Terraform variables', value: 'terraform' },
      ],
    },
  ],
  options: [],
  describeTarget(target, credential) {
    const { kind, organization = '', workspace = '', variableSet = '' } = target
    const id = kind === 'variableSet' ? variableSet : workspace
    const category = categoryOf({ target, options: {} })
    // Earlier versions had no category in the fingerprint; environment variables keep that form.
    const place = [baseUrlOf(credential.baseUrl, hcp), id, ...(category === 'env' ? [] : [category])]
    return { label: `${organization} ${id} (${category})`, fingerprint: JSON.stringify(place) }
  },
  normaliseName: (name) => name,
  connect: openVariables,
}
