/** Secrets of a Worker: one merge patch for up to a hundred of them, deployed at once as one new version. */
import { accountPath, askCloudflare, authFields, listNames, resultsOf, verifyToken } from './cloudflare-request.ts'
import type { Connection, Op, Provider, RemoteItem } from './provider.ts'
import { textAt } from './vendor-json.ts'

const scripts = (connection: Connection) => `${accountPath(connection)}/workers/scripts`
const script = (connection: Connection) =>
  `${scripts(connection)}/${encodeURIComponent(connection.target.script ?? '')}`

/** Names only. Secrets of other types are included, since they occupy names too. */
async function* listSecrets(connection: Connection): AsyncIterable<RemoteItem> {
  const answer = await askCloudflare(connection, { method: 'GET', path: `${script(connection)}/secrets` })
  for (const secret of resultsOf(answer)) yield { name: textAt(secret, 'name') }
}

/** All or nothing: one refused name fails the whole call, and the vendor's message names it. */
async function* patchSecrets(connection: Connection, ops: readonly Op[]) {
  const entries = ops.map((op) => [
    op.name,
    op.kind === 'delete' ? null : { type: 'secret_text', name: op.name, text: op.value },
  ])
  await askCloudflare(connection, {
    method: 'PATCH',
    path: `${script(connection)}/secrets-bulk`,
    json: { secrets: Object.fromEntries(entries) },
  })
  for (const { name } of ops) yield { name }
}

export const cloudflareWorkers: Provider = {
  slug: 'cloudflare-workers',
  name: 'Cloudflare Workers',
  website: 'https://workers.cloudflare.com',
  docs: 'https://developers.cloudflare.com/api/resources/workers/subresources/scripts/subresources/secrets/',
  glyph: { text: 'W', colour: '#b5540a' },
  notes: [
    'Each push creates one new version of the Worker and deploys it at once.',
    'Values cannot be read back. Changes by others are not detected, but deletions are.',
    'A secret cannot have the name of another binding of the Worker.',
    'A Worker has at most 64 variables and secrets together on the free plan, and 128 on a paid plan.',
    'Cloudflare does not document whether values may be empty, so empty ones are not sent.',
  ],
  capabilities: { read: 'names', bulk: 100, mixes: true, guard: 'none', deploysOnPush: true, defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z_][A-Za-z0-9_]*$/,
    nameHint: 'letters, digits and underscores, not starting with a digit',
    valueMaxBytes: 5 * 1024,
    allowsEmpty: false,
    maxItems: 128,
    rate: { perSecond: 3, concurrency: 1 },
  },
  auth: authFields('Account › Workers Scripts › Edit'),
  verify: verifyToken,
  target: [
    {
      kind: 'select',
      id: 'script',
      label: 'Worker',
      placeholder: 'Choose a Worker',
      options: (connection) => listNames(connection, scripts(connection), 'id'),
      check: (value) => (/^[A-Za-z0-9_][A-Za-z0-9_-]{0,254}$/.test(value) ? undefined : 'is not the name of a Worker.'),
    },
  ],
  options: [],
  describeTarget: ({ script = '' }, { accountId = '' }) => ({ label: script, fingerprint: `${accountId}/${script}` }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => listSecrets(connection),
    apply: (ops) => patchSecrets(connection, ops),
  }),
}
