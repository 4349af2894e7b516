/** Render's environment variables of one service and one group; driven by render-api in render.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const token = 'rnd_key-of-the-fake'
const service = 'srv-cukouhrtq21c73e9scng'
const envGroup = 'evg-cukouhrtq21c73e9sab0'

const moment = '2026-01-01T00:00:00Z'

type FakeRender = Fake & { readonly deploys: string[] }

/** `kind`: the target, a service or a group. */
export function fakeRender(kind: 'service' | 'env-group' = 'service'): FakeRender {
  const variables: Record<string, Map<string, string>> = { [service]: new Map(), [envGroup]: new Map() }
  const own = variables[kind === 'service' ? service : envGroup] ?? new Map<string, string>()
  const violations: string[] = []
  const deploys: string[] = []
  let exists = true

  const refuse = (status: number, message: string): FakeAnswer => ({ status, body: { id: '', message } })

  function answer(request: FakeRequest): FakeAnswer {
    const { method, path } = request
    if (request.headers.authorization !== `Bearer ${token}`) return refuse(401, 'Unauthorized')
    if (method === 'GET' && path === '/v1/users')
      return { status: 200, body: { email: 'ops@example.com', name: 'Ops' } }
    if (method === 'GET' && path === '/v1/services') {
      return page(request, 'service', [
        { id: 'srv-aaaa', name: 'other' },
        { id: service, name: 'shop' },
      ])
    }
    if (method === 'GET' && path === '/v1/env-groups') return page(request, 'envGroup', [groupShown()])
    const [, owner = '', rest = ''] = /^\/v1\/(?:services|env-groups)\/([^/]+)(\/.*)?$/.exec(path) ?? []
    const vars = variables[owner]
    if (vars === undefined || !exists) return refuse(404, `not found: ${owner}`)
    if (owner === envGroup && rest === '' && method === 'GET') return { status: 200, body: groupShown() }
    if (owner === service && rest === '/deploys' && method === 'POST') return deploy(request)
    if (owner === service && rest === '/env-vars' && method === 'GET') {
      return page(
        request,
        'envVar',
        [...vars].map(([key, value]) => ({ key, value })),
      )
    }
    const key = /^\/env-vars\/([^/]+)$/.exec(rest)?.[1]
    if (key !== undefined) return variable(request, vars, decodeURIComponent(key))
    // The bulk call is forbidden: it would replace all variables.
    violations.push(`${method} ${path}`)
    return refuse(405, 'method not allowed')
  }

  function groupShown() {
    const envVars = [...(variables[envGroup] ?? [])].map(([key, value]) => ({ key, value }))
    const meta = { id: envGroup, name: 'shared', ownerId: 'tea-aaaa', createdAt: moment, updatedAt: moment }
    return { ...meta, envVars, secretFiles: [], serviceLinks: [] }
  }

  /** The list continues after the item whose cursor is given. */
  function page({ query }: FakeRequest, name: string, items: readonly object[]): FakeAnswer {
    const limit = Number(query.get('limit') ?? 20)
    if (limit < 1 || limit > 100) violations.push(`limit ${limit}`)
    const from = Number(query.get('cursor') ?? 0)
    const size = Math.min(limit, fake.pageSize ?? limit)
    const body = items
      .slice(from, from + size)
      .map((item, index) => ({ cursor: String(from + index + 1), [name]: item }))
    return { status: 200, body }
  }

  function variable({ method, json }: FakeRequest, vars: Map<string, string>, key: string): FakeAnswer {
    if (method === 'DELETE') return vars.delete(key) ? { status: 204 } : refuse(404, `env var ${key} not found`)
    if (method === 'GET') {
      const value = vars.get(key)
      return value === undefined ? refuse(404, `env var ${key} not found`) : { status: 200, body: { key, value } }
    }
    if (method !== 'PUT') {
      violations.push(`${method} on one variable`)
      return refuse(405, 'method not allowed')
    }
    const body = json as { value?: unknown }
    if (typeof body?.value !== 'string' || Object.keys(body).length !== 1) violations.push(`${key}: no value, or more`)
    const value = String(body.value)
    if (value === '') return refuse(400, 'value must not be empty')
    if (fake.refusedNames.has(key)) return refuse(400, `invalid env var ${key}=${value}`)
    vars.set(key, value)
    return { status: 200, body: { key, value } }
  }

  function deploy({ json }: FakeRequest): FakeAnswer {
    const known = ['clearCache', 'commitId', 'imageUrl', 'deployMode']
    if (Object.keys((json as object) ?? {}).some((field) => !known.includes(field))) violations.push('unknown fields')
    deploys.push(service)
    const id = `dep-${deploys.length}`
    return { status: 201, body: { id, status: 'created', trigger: 'api', createdAt: moment, updatedAt: moment } }
  }

  const fake: FakeRender = {
    hosts: ['api.render.com'],
    credential: { token },
    wrongCredential: { token: 'rnd_wrong' },
    target: kind === 'service' ? { kind, service } : { kind, envGroup },
    options: { deploy: 'no' },
    answer,
    violations,
    state: () => new Map(own),
    tamper: (name, value) => void (value === undefined ? own.delete(name) : own.set(name, value)),
    setTarget: (value) => {
      exists = value
    },
    pageSize: kind === 'service' ? 100 : undefined,
    refusedNames: new Set(),
    // A page that is not full may still not be the last, so an empty page ends the list.
    calls: { list: () => (kind === 'service' ? 2 : 1), update: 1, look: 1 },
    deploys,
  }
  return fake
}
