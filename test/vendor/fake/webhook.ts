/** A receiver of Standard Webhooks that verifies messages with the reference library and stores the values. */
import { Webhook } from 'standardwebhooks'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

type Message = Record<string, unknown>

function verifyAt(nowMs: number, text: string, headers: FakeRequest['headers']): unknown {
  const at = Number(headers['webhook-timestamp']) * 1_000
  const signature = new Webhook(secret).sign(headers['webhook-id'] ?? '', new Date(at), text)
  if (Math.abs(nowMs - at) > 300_000 || headers['webhook-signature'] !== signature)
    throw new Error('invalid signature or timestamp')
  return JSON.parse(text)
}

type FakeReceiver = Fake & {
  /** Every accepted message. */
  readonly messages: Record<string, unknown>[]
  /** The content by message id: a receiver uses the id to drop duplicates. */
  readonly ids: Map<string, string>
}

type Parts = {
  clock?: () => number
  /** Larger messages are refused with 413, as by a proxy. */
  maxBytes?: number
}

/**
 * `clock`: for tests with a simulated clock; then the library computes only the signature, since it checks real time.
 */
export function fakeReceiver({ clock, maxBytes = 1024 * 1024 }: Parts = {}): FakeReceiver {
  const values = new Map<string, string>()
  const violations: string[] = []
  const messages: Record<string, unknown>[] = []
  const ids = new Map<string, string>()
  let exists = true

  function answer({ method, path, headers, text }: FakeRequest): FakeAnswer {
    if (!exists || path !== '/coffer') return { status: 410, body: { message: 'No longer wanted.' } }
    if (method !== 'POST' || headers['content-type'] !== 'application/json') violations.push(`${method} of no JSON`)
    if (Buffer.byteLength(text) > maxBytes) return { status: 413, body: '<html>413 Request Entity Too Large</html>' }
    let message: Message
    try {
      message = (clock ? verifyAt(clock(), text, headers) : new Webhook(secret).verify(text, { ...headers })) as Message
    } catch (error) {
      return { status: 401, body: { message: String(error) } }
    }
    const id = headers['webhook-id'] ?? ''
    const seen = ids.get(id)
    if (seen !== undefined && seen !== text) violations.push(`${id} stands for two messages`)
    if (seen !== undefined) return { status: 204 }
    messages.push(message)
    const taken = message.type === 'sync.push' ? take(message) : { status: 204 }
    if (taken.status < 300) ids.set(id, text)
    return taken
  }

  function take(message: Record<string, unknown>): FakeAnswer {
    const { syncId, upserted, deleted, ...rest } = message as {
      syncId: string
      upserted: { name: string; value?: string }[]
      deleted: string[]
      type: string
    }
    if (Object.keys(rest).join() !== 'type' || !/^[0-9a-f-]{36}$/.test(syncId)) violations.push('unexpected fields')
    const refused = upserted.find(({ name }) => fake.refusedNames.has(name))
    if (refused) return { status: 422, body: { message: `${refused.name} cannot be ${refused.value}` } }
    for (const { name, value } of upserted) if (value !== undefined) values.set(name, value)
    for (const name of deleted) values.delete(name)
    return { status: 200, body: 'thank you' }
  }

  const url = 'https://hooks.example.test/coffer'
  const fake: FakeReceiver = {
    hosts: ['hooks.example.test'],
    credential: { url, secret },
    wrongCredential: { url, secret: `whsec_${Buffer.alloc(32, 8).toString('base64')}` },
    target: {},
    options: { content: 'values' },
    answer,
    violations,
    state: () => new Map(values),
    tamper: (name, value) => void (value === undefined ? values.delete(name) : values.set(name, value)),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 0, update: 1, look: 0 },
    messages,
    ids,
  }
  return fake
}
