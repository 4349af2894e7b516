/** Variables of a Railway service, or the shared ones of an environment: one upsert for all, which deploys. */
import { type FaultKind, isFault } from './fault.ts'
import { askGraphql } from './graphql-request.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem, SelectField, Values } from './provider.ts'
import { at, entriesAt, listAt, maybeTextAt, textAt } from './vendor-json.ts'

const url = 'https://backboard.railway.com/graphql/v2'

/** The vendor gives nearly every error the same code, so only the message can be matched. */
function sort({ message }: { message: string }): FaultKind | undefined {
  if (/not authorized|unauthorized|unauthenticated/i.test(message)) return 'auth'
  if (/not found/i.test(message)) return 'gone'
  if (/rate limit|too many requests/i.test(message)) return 'rate'
  if (/problem processing request/i.test(message)) return 'transient'
  return undefined
}

const isProjectToken = ({ credential }: Connection) => credential.tokenType !== 'account'

async function ask(connection: Connection, document: string, variables?: Record<string, unknown>): Promise<unknown> {
  const token = connection.credential.token ?? ''
  const headers: Record<string, string> = isProjectToken(connection)
    ? { 'project-access-token': token }
    : { authorization: `Bearer ${token}` }
  return askGraphql(connection, { url, headers, document, sort, ...(variables && { variables }) })
}

const projectTokenDocument = 'query { projectToken { project { id name } environment { id name } } }'
const apiTokenDocument = 'query { apiToken { workspaces { id name } } }'
const projectsDocument = `query ($workspaceId: String, $after: String) {
  projects(workspaceId: $workspaceId, first: 100, after: $after) {
    edges { node { id name } }
    pageInfo { hasNextPage endCursor }
  }
}`
const environmentsDocument = 'query ($id: String!) { project(id: $id) { environments { edges { node { id name } } } } }'
const servicesDocument = 'query ($id: String!) { project(id: $id) { services { edges { node { id name } } } } }'

/** Asks for references unresolved. Sealed variables have no readable value, so a second list gives their names. */
const variablesDocument = `query ($projectId: String!, $environmentId: String!, $serviceId: String) {
  variables(projectId: $projectId, environmentId: $environmentId, serviceId: $serviceId, unrendered: true)
  environment(id: $environmentId, projectId: $projectId) {
    variables(first: 10000) { edges { node { name serviceId isSealed } } }
  }
}`
const upsertDocument = 'mutation ($input: VariableCollectionUpsertInput!) { variableCollectionUpsert(input: $input) }'
const deleteDocument = 'mutation ($input: VariableDeleteInput!) { variableDelete(input: $input) }'

const optionOf = (node: unknown): Option => ({ label: textAt(node, 'name'), value: textAt(node, 'id') })

async function listProjects(connection: Connection): Promise<Option[]> {
  if (isProjectToken(connection)) {
    return [optionOf(at(await ask(connection, projectTokenDocument), 'projectToken', 'project'))]
  }
  const options: Option[] = []
  for (const workspace of listAt(await ask(connection, apiTokenDocument), 'apiToken', 'workspaces')) {
    let after: string | undefined
    do {
      const variables = { workspaceId: textAt(workspace, 'id'), after: after ?? null }
      const data = await ask(connection, projectsDocument, variables)
      options.push(...listAt(data, 'projects', 'edges').map((edge) => optionOf(at(edge, 'node'))))
      const page = at(data, 'projects', 'pageInfo')
      after = at(page, 'hasNextPage') === true ? textAt(page, 'endCursor') : undefined
    } while (after !== undefined)
  }
  return options
}

async function listEnvironments(connection: Connection): Promise<Option[]> {
  if (isProjectToken(connection)) {
    return [optionOf(at(await ask(connection, projectTokenDocument), 'projectToken', 'environment'))]
  }
  const data = await ask(connection, environmentsDocument, { id: connection.target.project })
  return listAt(data, 'project', 'environments', 'edges').map((edge) => optionOf(at(edge, 'node')))
}

async function listServices(connection: Connection): Promise<Option[]> {
  const data = await ask(connection, servicesDocument, { id: connection.target.project })
  return listAt(data, 'project', 'services', 'edges').map((edge) => optionOf(at(edge, 'node')))
}

/** The token was verified, so "not authorized" means that it may not list. */
const orTyped = (list: (connection: Connection) => Promise<Option[]>) => (connection: Connection) =>
  list(connection).catch((error: unknown) => {
    if (isFault(error, 'auth') || isFault(error, 'scope')) return undefined
    throw error
  })

function placeOf({ target }: Connection) {
  const { project = '', environment = '', service = '' } = target
  return { projectId: project, environmentId: environment, ...(service !== '' && { serviceId: service }) }
}

async function* listVariables(connection: Connection): AsyncIterable<RemoteItem> {
  const place = placeOf(connection)
  const data = await ask(connection, variablesDocument, place)
  // Railway's own variables are set everywhere and cannot be written.
  const values = entriesAt(data, 'variables').filter(([name]) => !name.startsWith('RAILWAY_'))
  for (const [name, value] of values) yield { name, value: String(value) }
  const readable = new Set(values.map(([name]) => name))
  for (const edge of listAt(data, 'environment', 'variables', 'edges')) {
    const name = textAt(edge, 'node', 'name')
    const isHere = maybeTextAt(edge, 'node', 'serviceId') === place.serviceId
    if (isHere && at(edge, 'node', 'isSealed') === true && !readable.has(name)) yield { name }
  }
}

async function removeVariable(connection: Connection, name: string): Promise<void> {
  try {
    await ask(connection, deleteDocument, { input: { ...placeOf(connection), name } })
  } catch (error) {
    const isGone = isFault(error, 'gone') && /variable/i.test(error.facts.vendorMessage ?? '')
    if (!isGone) throw error
  }
}

async function* applyOps(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const variables = Object.fromEntries(ops.flatMap((op) => (op.kind === 'delete' ? [] : [[op.name, op.value]])))
  if (Object.keys(variables).length > 0) {
    const skipDeploys = connection.options.deploy === 'no'
    // Never replace: that would remove all variables that are not in this call.
    const input = { ...placeOf(connection), variables, replace: false, skipDeploys }
    await ask(connection, upsertDocument, { input })
    for (const name of Object.keys(variables)) yield { name }
  }
  for (const { kind, name } of ops) {
    if (kind !== 'delete') continue
    await removeVariable(connection, name)
    yield { name }
  }
}

const checkId = (value: string) =>
  /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value) ? undefined : 'is not an ID of Railway.'

const target: readonly SelectField[] = [
  { kind: 'select', id: 'project', label: 'Project', options: orTyped(listProjects), check: checkId },
  {
    kind: 'select',
    id: 'environment',
    label: 'Environment',
    after: ['project'],
    options: orTyped(listEnvironments),
    check: checkId,
  },
  {
    kind: 'select',
    id: 'service',
    label: 'Service',
    description: 'If empty, the variables become shared variables of the environment.',
    after: ['project'],
    isOptional: true,
    options: orTyped(listServices),
    check: checkId,
  },
]

function describeTarget({ project = '', environment = '', service = '' }: Values) {
  const short = (id: string) => id.slice(0, 8)
  const place = service === '' ? 'shared variables' : `service ${short(service)}`
  return {
    label: `project ${short(project)}, environment ${short(environment)}, ${place}`,
    fingerprint: [project, environment, service].join('/').toLowerCase(),
  }
}

export const railway: Provider = {
  slug: 'railway',
  name: 'Railway',
  website: 'https://railway.com',
  docs: 'https://docs.railway.com/integrations/api/manage-variables',
  glyph: { text: 'R', colour: '#33205c' },
  notes: [
    'A push is one call for all keys, and one call for each deleted key. Railway then deploys the service, unless you disable that.',
    'Values that contain ${{ are refused, because Railway would treat them as references to other variables.',
    'Values can be read back, except values of sealed variables.',
    'Railway allows 100, 1,000 or 10,000 calls an hour, depending on the plan. It documents neither a size limit for values nor whether they may be empty. Empty values are not sent.',
  ],
  capabilities: {
    read: 'value',
    bulk: 1_000,
    mixes: false,
    guard: 'version',
    deploysOnPush: true,
    defaultMode: 'per-key',
  },
  limits: {
    name: /^(?!RAILWAY_)[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit or RAILWAY_',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    refuseValue: (value) =>
      value.includes('${{') ? 'contains ${{, which Railway would treat as a reference to another variable.' : undefined,
    rate: { perSecond: 2, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permission',
      label: 'Create a token',
      description: 'Open the settings of the project, Tokens. A project token reaches one environment of one project.',
      language: 'text',
      text: () => 'Project token, for the environment of this sync',
    },
    {
      kind: 'select',
      id: 'tokenType',
      label: 'Kind of token',
      defaultValue: 'project',
      options: [
        { label: 'Project token', value: 'project' },
        { label: 'Account or workspace token', value: 'account' },
      ],
    },
    { kind: 'password', id: 'token', label: 'Token' },
  ],
  async verify(connection) {
    if (isProjectToken(connection)) {
      const data = at(await ask(connection, projectTokenDocument), 'projectToken')
      return `${textAt(data, 'project', 'name')}, ${textAt(data, 'environment', 'name')}`
    }
    const data = await ask(connection, apiTokenDocument)
    return (
      listAt(data, 'apiToken', 'workspaces')
        .map((workspace) => textAt(workspace, 'name'))
        .join(', ') || 'Railway'
    )
  },
  target,
  options: [
    {
      kind: 'select',
      id: 'deploy',
      label: 'After a push',
      defaultValue: 'yes',
      options: [
        { label: 'Deploy the services that use the variables', value: 'yes' },
        { label: 'Leave the variables until the next deployment', value: 'no' },
      ],
    },
  ],
  describeTarget,
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => listVariables(connection),
    apply: (ops) => applyOps(connection, ops),
  }),
}
