/**
 * A generic target: posts the names of changed keys, and optionally their values, to a URL, signed by the Standard
 * Webhooks scheme. The receiver's state is unknown and cannot be read back.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { VendorFault } from './fault.ts'
import type { Connection, Op, OpResult, Provider, Values } from './provider.ts'

const secretPrefix = 'whsec_'

/** The body of a push. Receivers may answer any 2xx to other message types and ignore them. */
type Push = {
  readonly type: 'sync.push'
  readonly syncId: string
  readonly upserted: readonly { readonly name: string; readonly value?: string }[]
  readonly deleted: readonly string[]
}
type Message = Push | { readonly type: 'sync.verify'; readonly syncId: string }

const withValues = (options: Values) => options.content === 'values'

function pushOf({ syncId, options }: Connection, ops: readonly Op[]): Push {
  const upserted = ops.flatMap((op) =>
    op.kind === 'delete' ? [] : [{ name: op.name, ...(withValues(options) && { value: op.value }) }],
  )
  const deleted = ops.flatMap(({ kind, name }) => (kind === 'delete' ? [name] : []))
  return { type: 'sync.push', syncId, upserted, deleted }
}

/**
 * A message keeps its id when it is retried in the same run, so that receivers can drop duplicates. Another run gives
 * it another id, because it may then be a later change.
 */
async function post(connection: Connection, runKey: Buffer, message: Message): Promise<void> {
  const { url = '', secret = '' } = connection.credential
  const timestamp = String(Math.floor(connection.now() / 1_000))
  const body = JSON.stringify(message)
  const id = `msg_${createHmac('sha256', runKey).update(body).digest('hex').slice(0, 32)}`
  const key = Buffer.from(secret.slice(secretPrefix.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  const { status } = await connection.http.send({
    method: 'POST',
    url,
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    },
    body,
    accept: [413],
  })
  // A smaller part of the push may still fit, as after a refusal of one value.
  if (status === 413) throw new VendorFault('invalid', 'A message is too large for the receiver (413).', tooLarge)
}

const tooLarge = {
  status: 413,
  remedy: 'Raise the limit of the receiver, or send only the names of the keys, which the mapping step offers.',
}

const newRunKey = () => randomBytes(32)

async function* applyOps(connection: Connection, runKey: Buffer, ops: readonly Op[]): AsyncIterable<OpResult> {
  await post(connection, runKey, pushOf(connection, ops))
  for (const { name } of ops) yield { name }
}

function checkUrl(value: string): string | undefined {
  const url = URL.parse(value)
  // Which hosts may be reached by plain http is decided by outbound.ts.
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:'
  if (url === null || !isWeb || value.length > 2_048) return 'must be an address with https://.'
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password.'
  if (url.hash !== '') return 'must not contain a #.'
  return undefined
}

function checkSecret(value: string): string | undefined {
  const text = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value)?.[1]
  const key = Buffer.from(text ?? '', 'base64')
  const isForm = text !== undefined && key.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '')
  return isForm && key.length >= 24 && key.length <= 64 ? undefined : 'must be whsec_ and 24 to 64 bytes in base64.'
}

const hostOf = (url = '') => URL.parse(url)?.host ?? ''

export const webhook: Provider = {
  slug: 'webhook',
  name: 'Webhook',
  website: 'https://www.standardwebhooks.com',
  docs: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md',
  glyph: { text: 'WH', colour: '#2f5d62' },
  notes: [
    'Each push is one or more signed POST requests with the type "sync.push", the id of the sync, the upserted and the deleted keys. Without values, the receiver fetches them itself.',
    'Any 2xx is success. 410 stops the sync; 429 and 5xx are retried. The same push may arrive more than once with the same content; retries within a run keep the webhook-id.',
    'A webhook cannot be read: changes by others at the receiver are not detected.',
    'The setup sends one message of type "sync.verify", which only needs a 2xx.',
  ],
  capabilities: { read: 'nothing', bulk: 100, mixes: true, guard: 'none', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z0-9_./-]+$/,
    nameHint: 'letters, digits and _ . / -',
    nameMax: 512,
    valueMaxBytes: 64 * 1024,
    allowsEmpty: true,
    rate: { perSecond: 5, concurrency: 1 },
  },
  auth: [
    {
      kind: 'text',
      id: 'url',
      label: 'Address',
      description: 'The address that gets the messages. Plain http works only for hosts in COFFER_OUTBOUND_ALLOW.',
      placeholder: 'https://hooks.example.com/coffer',
      isAddress: true,
      mayHoldToken: true,
      check: checkUrl,
    },
    {
      kind: 'copy',
      id: 'command',
      label: 'Create a signing secret',
      description: 'The receiver verifies every message with this secret, using any Standard Webhooks library.',
      language: 'bash',
      text: () => 'echo "whsec_$(openssl rand -base64 32)"',
    },
    { kind: 'password', id: 'secret', label: 'Signing secret', placeholder: 'whsec_…', check: checkSecret },
  ],
  async verify(connection) {
    await post(connection, newRunKey(), { type: 'sync.verify', syncId: connection.syncId })
    return hostOf(connection.credential.url)
  },
  target: [],
  options: [
    {
      kind: 'select',
      id: 'content',
      label: 'Send',
      isStored: true,
      defaultValue: 'names',
      options: [
        { label: 'The names of the keys that changed', value: 'names' },
        { label: 'Names and values', value: 'values' },
      ],
    },
    {
      kind: 'copy',
      id: 'example',
      label: 'Example of a message',
      after: ['content'],
      language: 'json',
      text({ syncId, values }) {
        const upserted = [{ name: 'API_KEY', ...(withValues(values) && { value: 'the value' }) }]
        return JSON.stringify({ type: 'sync.push', syncId, upserted, deleted: ['OLD_KEY'] } satisfies Push, null, 2)
      },
    },
  ],
  /** The URL's path may contain a token, so only the host is shown. */
  describeTarget: (_target, { url = '' }) => ({
    label: hostOf(url),
    fingerprint: createHash('sha256')
      .update(URL.parse(url)?.href ?? '')
      .digest('hex'),
  }),
  normaliseName: (name) => name,
  connect(connection) {
    const runKey = newRunKey()
    return {
      async *list() {},
      apply: (ops) => applyOps(connection, runKey, ops),
    }
  },
}
