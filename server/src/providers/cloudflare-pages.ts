/**
 * Environment variables of a Cloudflare Pages project, all written as secrets in one merge patch of the project's
 * settings.
 */
import { accountPath, askCloudflare, authFields, listNames, verifyToken } from './cloudflare-request.ts'
import type { Connection, Op, Provider, Remote, RemoteItem } from './provider.ts'
import { at, entriesAt, maybeTextAt } from './vendor-json.ts'

const projects = (connection: Connection) => `${accountPath(connection)}/pages/projects`
const project = (connection: Connection) =>
  `${projects(connection)}/${encodeURIComponent(connection.target.project ?? '')}`

const checkProject = (value: string) =>
  /^[a-z0-9][a-z0-9-]{0,57}$/.test(value) ? undefined : 'is not the name of a Pages project.'

function connect(connection: Connection): Remote {
  const environment = connection.target.environment ?? ''
  let settings: unknown

  async function readSettings(): Promise<unknown> {
    const answer = await askCloudflare(connection, { method: 'GET', path: project(connection) })
    settings = at(answer, 'result', 'deployment_configs', environment) ?? {}
    return settings
  }

  return {
    /** Includes variables that are not secrets, since they occupy names too. */
    async *list(): AsyncIterable<RemoteItem> {
      const variables = at(await readSettings(), 'env_vars') ?? {}
      for (const [name, variable] of entriesAt(variables)) if (variable !== null) yield { name }
    },
    /** A patch that omits the config hash deletes it, and the project would no longer count as managed by Wrangler. */
    async *apply(ops: readonly Op[]) {
      const hash = maybeTextAt(settings ?? (await readSettings()), 'wrangler_config_hash')
      const variables = ops.map((op) => [
        op.name,
        op.kind === 'delete' ? null : { type: 'secret_text', value: op.value },
      ])
      const change = {
        env_vars: Object.fromEntries(variables),
        ...(hash !== undefined && { wrangler_config_hash: hash }),
      }
      const json = { deployment_configs: { [environment]: change } }
      await askCloudflare(connection, { method: 'PATCH', path: project(connection), json })
      for (const { name } of ops) yield { name }
    },
  }
}

export const cloudflarePages: Provider = {
  slug: 'cloudflare-pages',
  name: 'Cloudflare Pages',
  website: 'https://pages.cloudflare.com',
  docs: 'https://developers.cloudflare.com/api/resources/pages/subresources/projects/methods/edit/',
  glyph: { text: 'P', colour: '#a3480c' },
  notes: [
    'Variables take effect with the next deployment of the project.',
    'Variables are written as secrets. Values cannot be read back; changes by others are not detected, but deletions are.',
    'The size limit of values is that of Workers, on which Pages run. Cloudflare does not document whether values may be empty, so empty ones are not sent.',
  ],
  capabilities: { read: 'names', bulk: 100, mixes: true, guard: 'none', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 5 * 1024,
    allowsEmpty: false,
    rate: { perSecond: 3, concurrency: 1 },
  },
  auth: authFields('Account › Cloudflare Pages › Edit'),
  verify: verifyToken,
  target: [
    {
      kind: 'select',
      id: 'project',
      label: 'Project',
      placeholder: 'Choose a project',
      options: (connection) => listNames(connection, projects(connection), 'name', 10),
      check: checkProject,
    },
    {
      kind: 'select',
      id: 'environment',
      label: 'Environment',
      defaultValue: 'production',
      options: [
        { label: 'Production', value: 'production' },
        { label: 'Preview', value: 'preview' },
      ],
    },
  ],
  options: [],
  describeTarget: ({ project = '', environment = '' }, { accountId = '' }) => ({
    label: `${project}, ${environment}`,
    fingerprint: `${accountId}/${project}/${environment}`,
  }),
  normaliseName: (name) => name,
  connect,
}
