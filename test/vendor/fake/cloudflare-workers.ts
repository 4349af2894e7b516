/** Secrets of a Cloudflare Worker; driven by the cloudflare client in cloudflare-workers.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { accountId, answerCommon, fine, refuse, userToken } from './cloudflare-envelope.ts'

const script = 'shop-production'
/** A plain-text variable of the Worker. */
export const plainBinding = 'PLAIN'
const maxBytes = 5 * 1024

export function fakeCloudflareWorkers(): Fake {
  const secrets = new Map<string, string>()
  const violations: string[] = []
  const scripts = `/client/v4/accounts/${accountId}/workers/scripts`
  let exists = true

  function answer(request: FakeRequest): FakeAnswer {
    const common = answerCommon(request)
    if (common) return common
    const { method, path } = request
    if (method === 'GET' && path === scripts)
      return fine((exists ? [script, 'other'] : ['other']).map((id) => ({ id })))
    if (!path.startsWith(`${scripts}/${script}/`) || !exists) {
      return refuse(404, 10007, 'This Worker does not exist on your account.')
    }
    const rest = path.slice(`${scripts}/${script}/`.length)
    if (method === 'GET' && rest === 'secrets') return fine(listing())
    if (method === 'PATCH' && rest === 'secrets-bulk') return patch(request)
    violations.push(`${method} ${path}`)
    return refuse(405, 10405, 'Method not allowed for this authentication scheme')
  }

  const listing = () => [...secrets.keys()].map((name) => ({ name, type: 'secret_text' }))

  function patch({ json }: FakeRequest): FakeAnswer {
    const body = json as { secrets?: Record<string, unknown> }
    const changes = Object.entries(body.secrets ?? {})
    if (Object.keys(body).some((key) => key !== 'secrets' && key !== 'version_tags')) violations.push('unknown fields')
    if (changes.length === 0 || changes.length > 100) {
      violations.push(`${changes.length} operations`)
      return refuse(400, 10021, 'Too many operations.')
    }
    for (const [name, entry] of changes) {
      const refusal = entry === null ? undefined : refusalOf(name, entry as Record<string, unknown>)
      if (refusal) return refusal
    }
    for (const [name, entry] of changes) {
      if (entry === null) secrets.delete(name)
      else secrets.set(name, (entry as { text: string }).text)
    }
    return fine(Object.fromEntries(listing().map((secret) => [secret.name, secret])))
  }

  function refusalOf(name: string, entry: Record<string, unknown>): FakeAnswer | undefined {
    const isForm = entry.type === 'secret_text' && entry.name === name && typeof entry.text === 'string'
    if (!isForm || Object.keys(entry).length !== 3) violations.push(`${name}: no secret_text of that name`)
    if (name === plainBinding)
      return refuse(400, 10053, `Binding name '${name}' already in use. Please use a different name.`)
    if (fake.refusedNames.has(name)) return refuse(400, 10021, `${name} is refused, whose text is ${entry.text}`)
    if (Buffer.byteLength(String(entry.text)) > maxBytes) return refuse(400, 10054, 'Text binding is too large.')
    if (!secrets.has(name) && secrets.size >= 127) return refuse(400, 10055, 'Too many text bindings.')
    return undefined
  }

  const fake: Fake = {
    hosts: ['api.cloudflare.com'],
    credential: { token: userToken, accountId },
    wrongCredential: { token: 'cfut_wrong', accountId },
    target: { script },
    options: {},
    answer,
    violations,
    state: () => new Map(secrets),
    tamper: (name, value) => void (value === undefined ? secrets.delete(name) : secrets.set(name, value)),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 0 },
  }
  return fake
}
