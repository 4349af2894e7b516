/** Secrets of a Fly.io app, all in one call. They are staged: a running machine gets them when it is updated. */
import { type FaultKind, isFault } from './fault.ts'
import { askGraphql } from './graphql-request.ts'
import type { Connection, Op, Option, Provider, Remote, RemoteItem } from './provider.ts'
import type { VendorRequest } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

const machinesApi = 'https://api.machines.dev/v1'
const graphqlApi = 'https://api.fly.io/graphql'

/** Accepts the output of `fly tokens create`, with or without its scheme. Personal tokens use Bearer. */
function authorizationOf({ credential }: Connection): string {
  const token = (credential.token ?? '').trim().replace(/^(FlyV1|Bearer)\s+/i, '')
  return /^fm(1r|1a|2)_/.test(token) ? `FlyV1 ${token}` : `Bearer ${token}`
}

async function send(connection: Connection, request: Pick<VendorRequest, 'method' | 'json'> & { path: string }) {
  const { method, path, json } = request
  const url = `${machinesApi}/apps/${encodeURIComponent(connection.target.app ?? '')}${path}`
  const headers = { authorization: authorizationOf(connection) }
  const response = await connection.http.send({ method, url, headers, ...(json !== undefined && { json }) })
  return response.json
}

function sort({ code, message }: { code: string; message: string }): FaultKind | undefined {
  if (code === 'UNAUTHORIZED' || /must be authenticated/i.test(message)) return 'auth'
  if (code === 'FORBIDDEN' || /not (authorized|allowed|permitted)/i.test(message)) return 'scope'
  if (code === 'NOT_FOUND') return 'gone'
  return undefined
}

/** The Machines API knows neither the owner of a token nor its apps; the older GraphQL API does. */
async function ask(connection: Connection, document: string, variables?: Record<string, unknown>): Promise<unknown> {
  const headers = { authorization: authorizationOf(connection) }
  return askGraphql(connection, { url: graphqlApi, headers, document, sort, ...(variables && { variables }) })
}

const viewerDocument = 'query { viewer { ... on User { email } ... on Macaroon { email } } }'

const appsDocument = `query ($after: String) {
  apps(type: "container", first: 200, after: $after) { nodes { name } pageInfo { hasNextPage endCursor } }
}`

async function listApps(connection: Connection): Promise<readonly Option[] | undefined> {
  const options: Option[] = []
  let after: string | undefined
  try {
    do {
      const data = await ask(connection, appsDocument, { after: after ?? null })
      for (const app of listAt(data, 'apps', 'nodes')) {
        options.push({ label: textAt(app, 'name'), value: textAt(app, 'name') })
      }
      after =
        at(data, 'apps', 'pageInfo', 'hasNextPage') === true ? textAt(data, 'apps', 'pageInfo', 'endCursor') : undefined
    } while (after !== undefined)
  } catch (error) {
    // The token was verified, so it only lacks the right to list, like a deploy token.
    if (isFault(error, 'scope') || isFault(error, 'auth') || isFault(error, 'invalid')) return undefined
    throw error
  }
  return options
}

async function* listSecrets(connection: Connection): AsyncIterable<RemoteItem> {
  for (const [name, mark] of digestsIn(await send(connection, { method: 'GET', path: '/secrets' }))) {
    yield { name, ...(mark !== undefined && { mark }) }
  }
}

/** The vendor writes an empty list as null. */
function digestsIn(json: unknown): [name: string, digest: string | undefined][] {
  const secrets = listAt({ secrets: at(json, 'secrets') ?? [] }, 'secrets')
  return secrets.map((secret) => [textAt(secret, 'name'), maybeTextAt(secret, 'digest')])
}

/** Machines of a release command or console are short-lived, and a machine being destroyed needs no secrets. */
function isLasting(machine: unknown): boolean {
  const group = maybeTextAt(machine, 'config', 'metadata', 'fly_process_group') ?? ''
  const state = maybeTextAt(machine, 'state') ?? ''
  return !/^fly_app_(release_command|console)$/.test(group) && !/^destroy/.test(state)
}

/**
 * Updates a machine with its unchanged config, so that it restarts with the new secrets. A stopped machine stays
 * stopped.
 */
async function updateMachine(connection: Connection, machine: unknown, version: string | undefined): Promise<void> {
  const isRunning = maybeTextAt(machine, 'state') === 'started'
  await send(connection, {
    method: 'POST',
    path: `/machines/${encodeURIComponent(textAt(machine, 'id'))}`,
    json: {
      config: at(machine, 'config'),
      // The vendor refuses the update if the machine has changed since it was read.
      current_version: textAt(machine, 'instance_id'),
      ...(version !== undefined && { min_secrets_version: Number(version) }),
      ...(!isRunning && { skip_launch: true }),
    },
  })
}

function connect(connection: Connection): Remote {
  let isChanged = false
  let version: string | undefined

  return {
    list: () => listSecrets(connection),
    async *apply(ops: readonly Op[]) {
      const values = Object.fromEntries(ops.map((op) => [op.name, op.kind === 'delete' ? null : op.value]))
      const json = await send(connection, { method: 'POST', path: '/secrets', json: { values } })
      isChanged = true
      version = maybeTextAt(json, 'version') ?? version
      const digests = new Map(digestsIn(json))
      for (const { kind, name } of ops) {
        const mark = kind === 'delete' ? undefined : digests.get(name)
        yield { name, ...(mark !== undefined && { mark }) }
      }
    },
    async finish() {
      if (connection.options.restart !== 'yes' || !isChanged) return
      const machines = listAt(await send(connection, { method: 'GET', path: '/machines' }))
      for (const machine of machines.filter(isLasting)) await updateMachine(connection, machine, version)
    },
  }
}

export const fly: Provider = {
  slug: 'fly',
  name: 'Fly.io',
  website: 'https://fly.io',
  docs: 'https://fly.io/docs/apps/secrets/',
  glyph: { text: 'F', colour: '#5b2bd0' },
  notes: [
    'Secrets are staged: a machine gets them at its next deploy or update. The sync can update the machines itself.',
    'Values cannot be read back. Changes by others are detected by the digests.',
    'Fly.io documents neither a size limit for values nor whether they may be empty. Empty values are not sent.',
  ],
  capabilities: { read: 'mark', bulk: 100, mixes: true, guard: 'version', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: false,
    rate: { perSecond: 1, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'command',
      label: 'Create a token',
      description: 'A deploy token reaches one app and nothing else. Copy the whole output.',
      language: 'bash',
      text: () => 'fly tokens create deploy --name coffer --app YOUR_APP',
    },
    {
      kind: 'password',
      id: 'token',
      label: 'Token',
      placeholder: 'FlyV1 fm2_…',
      check: (value) => (/^((FlyV1|Bearer)\s+)?[\x21-\x7e]+$/i.test(value.trim()) ? undefined : 'is not a token.'),
    },
  ],
  verify: async (connection) => textAt(await ask(connection, viewerDocument), 'viewer', 'email'),
  target: [
    {
      kind: 'select',
      id: 'app',
      label: 'App',
      placeholder: 'Choose an app',
      options: listApps,
      check: (value) => (/^[a-z0-9][a-z0-9-]{0,62}$/.test(value) ? undefined : 'is not the name of an app.'),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'restart',
      label: 'After a push',
      description: 'Updating restarts the running machines, one after the other.',
      defaultValue: 'no',
      options: [
        { label: 'Leave the secrets staged until the next deploy', value: 'no' },
        { label: 'Update the machines of the app', value: 'yes' },
      ],
    },
  ],
  describeTarget: ({ app = '' }) => ({ label: app, fingerprint: app }),
  normaliseName: (name) => name,
  connect,
}
