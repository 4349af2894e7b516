/** Config vars of a Heroku app: one call for all, which creates one release and restarts the app. */
import type { Connection, Op, Provider, RemoteItem } from './provider.ts'
import { entriesAt, listAt, textAt } from './vendor-json.ts'

const api = 'https://api.heroku.com'

const headersOf = ({ credential }: Connection) => ({
  accept: 'application/vnd.heroku+json; version=3',
  authorization: `Bearer ${credential.token}`,
})

const configVars = ({ target }: Connection) => `${api}/apps/${encodeURIComponent(target.app ?? '')}/config-vars`

/** Pagination by header: `Next-Range` of a response is the `Range` of the next request. */
async function listApps(connection: Connection) {
  const options: { label: string; value: string }[] = []
  let range: string | undefined = 'name ..; max=1000'
  while (range !== undefined) {
    const response = await connection.http.send({
      method: 'GET',
      url: `${api}/apps`,
      headers: { ...headersOf(connection), range },
    })
    for (const app of listAt(response.json)) options.push({ label: textAt(app, 'name'), value: textAt(app, 'name') })
    const next = response.headers['next-range']
    range = response.status === 206 && typeof next === 'string' ? next : undefined
  }
  return options
}

async function* listVars(connection: Connection): AsyncIterable<RemoteItem> {
  const { json } = await connection.http.send({
    method: 'GET',
    url: configVars(connection),
    headers: headersOf(connection),
  })
  for (const [name, value] of entriesAt(json)) yield { name, value: String(value) }
}

/** A merge patch: other names stay as they are, null removes a name. */
async function* patchVars(connection: Connection, ops: readonly Op[]) {
  const json = Object.fromEntries(ops.map((op) => [op.name, op.kind === 'delete' ? null : op.value]))
  const request = { method: 'PATCH', url: configVars(connection), headers: headersOf(connection), json } as const
  const response = await connection.http.send(request)
  // The vendor answers with all config vars; a proxy's page with status 200 does not.
  entriesAt(response.json)
  for (const { name } of ops) yield { name }
}

export const heroku: Provider = {
  slug: 'heroku',
  name: 'Heroku',
  website: 'https://www.heroku.com',
  docs: 'https://devcenter.heroku.com/articles/platform-api-reference#config-vars',
  glyph: { text: 'H', colour: '#5a3a8e' },
  notes: [
    'Each push creates one release and restarts the app.',
    'Values can be read back, so changes by others are detected.',
  ],
  capabilities: {
    read: 'value',
    bulk: 1_000,
    mixes: true,
    guard: 'version',
    deploysOnPush: true,
    defaultMode: 'per-key',
  },
  limits: {
    name: /^(?!HEROKU_|__)[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit, HEROKU_ or two underscores',
    valueMaxBytes: 64 * 1024,
    allowsEmpty: true,
    totalMaxBytes: 64 * 1024,
    rate: { perSecond: 1.25, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'command',
      label: 'Create a token',
      description: 'A dedicated token can be revoked separately. It needs the scope write-protected.',
      language: 'bash',
      text: () => 'heroku authorizations:create --description coffer --scope read-protected,write-protected',
    },
    { kind: 'password', id: 'token', label: 'API token', placeholder: 'HRKU-…' },
  ],
  async verify(connection) {
    const { json } = await connection.http.send({
      method: 'GET',
      url: `${api}/account`,
      headers: headersOf(connection),
    })
    return textAt(json, 'email')
  },
  target: [{ kind: 'select', id: 'app', label: 'App', placeholder: 'Choose an app', options: listApps }],
  options: [],
  describeTarget: ({ app = '' }) => ({ label: app, fingerprint: app }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => listVars(connection),
    apply: (ops) => patchVars(connection, ops),
  }),
}
