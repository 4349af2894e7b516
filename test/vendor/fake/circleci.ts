/** Environment variables of CircleCI's API v2, after its documentation; driven by circle-client. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const token = 'CCIPAT_00000000_fake'
const organization = 'bb604b45-b6b0-4b81-ad80-796f15eddf87'
const context = 'e51158a2-f59c-4740-9eb4-d20609baa07e'

const places = {
  project: { path: '/project/gh/acme/shop/envvar', target: { kind: 'project', project: 'gh/acme/shop' } },
  context: { path: `/context/${context}/environment-variable`, target: { kind: 'context', organization, context } },
}

type Variable = { value: string; createdAt: string; updatedAt: string }

export function fakeCircle(kind: keyof typeof places = 'project', { baseUrl }: { baseUrl?: string } = {}): Fake {
  const { path: home, target } = places[kind]
  const host = new URL(baseUrl ?? 'https://circleci.com').host
  const variables = new Map<string, Variable>()
  const violations: string[] = []
  let exists = true
  let clock = Date.UTC(2026, 0, 1)

  function now(): string {
    clock += 1_000
    return new Date(clock).toISOString()
  }
  const say = (status: number, message: string): FakeAnswer => ({ status, body: { message } })

  function answer(request: FakeRequest): FakeAnswer {
    const { method, headers } = request
    if (headers['circle-token'] !== token) return say(401, 'You must log in first.')
    if (!request.path.startsWith('/api/v2/')) return say(404, 'Not found')
    // The slashes of a project slug may be escaped.
    const path = request.path.slice('/api/v2'.length).replaceAll('%2F', '/')
    if (method === 'GET' && path === '/me') return { status: 200, body: { id: 'user', login: 'acme-bot', name: 'Bot' } }
    if (method === 'GET' && path === '/me/collaborations') {
      const nobody = { id: null, name: 'nobody', slug: 'gh/nobody', 'vcs-type': 'github' }
      return { status: 200, body: [nobody, { id: organization, name: 'acme', slug: 'gh/acme', 'vcs-type': 'github' }] }
    }
    if (method === 'GET' && path === '/context') {
      if (request.query.get('owner-id') !== organization) return say(400, 'owner-id or owner-slug is required')
      const other = { id: '00000000-0000-4000-8000-000000000000', name: 'other', created_at: '2026-01-01T00:00:00Z' }
      return page(request, [other, { id: context, name: 'shop', created_at: '2026-01-01T00:00:00Z' }])
    }
    if (!exists || !(path === home || path.startsWith(`${home}/`))) {
      return say(404, kind === 'context' ? 'Context not found.' : 'Project not found')
    }
    const name = path === home ? undefined : decodeURIComponent(path.slice(home.length + 1))
    return name === undefined ? collection(request) : single(request, name)
  }

  function collection(request: FakeRequest): FakeAnswer {
    if (request.method === 'GET')
      return page(
        request,
        [...variables].map(([name, variable]) => show(name, variable)),
      )
    if (request.method !== 'POST' || kind !== 'project') return say(405, 'Method not allowed')
    const { name, ...rest } = fieldsOf(request, ['name', 'value'])
    return write(String(name), rest.value, 201)
  }

  function single(request: FakeRequest, name: string): FakeAnswer {
    const known = variables.get(name)
    if (request.method === 'DELETE') {
      const isDone = variables.delete(name)
      return isDone ? say(200, 'Environment variable deleted.') : say(404, 'Environment variable not found.')
    }
    if (request.method === 'PUT' && kind === 'context') return write(name, fieldsOf(request, ['value']).value, 200)
    if (request.method !== 'GET' || kind !== 'project') return say(405, 'Method not allowed')
    return known ? { status: 200, body: show(name, known) } : say(404, 'Environment variable not found.')
  }

  function fieldsOf({ method, path, headers, json }: FakeRequest, names: readonly string[]): Record<string, unknown> {
    const fields = (json ?? {}) as Record<string, unknown>
    const complain = (what: string) => violations.push(`${method} ${path}: ${what}`)
    if (!/^application\/json/.test(headers['content-type'] ?? '')) complain('not JSON')
    for (const name of names) if (typeof fields[name] !== 'string') complain(`${name} is missing`)
    for (const name of Object.keys(fields)) if (!names.includes(name)) complain(`${name} is unknown`)
    return fields
  }

  function write(name: string, value: unknown, status: number): FakeAnswer {
    if (!/^[A-Za-z_]\w*$/.test(name) || fake.refusedNames.has(name)) {
      return say(400, `Environment variable ${name}=${value} is not valid`)
    }
    const updatedAt = now()
    const variable = { value: String(value), createdAt: variables.get(name)?.createdAt ?? updatedAt, updatedAt }
    variables.set(name, variable)
    return { status, body: show(name, variable) }
  }

  function show(name: string, { value, createdAt, updatedAt }: Variable) {
    if (kind === 'context') return { variable: name, context_id: context, created_at: createdAt, updated_at: updatedAt }
    return { name, value: `xxxx${value.length > 4 ? value.slice(-4) : ''}`, 'created-at': createdAt }
  }

  function page({ query }: FakeRequest, items: readonly unknown[]): FakeAnswer {
    const start = query.get('page-token')
    const from = start === null ? 0 : Number(Buffer.from(start, 'base64url').toString())
    const end = from + (fake.pageSize ?? 100)
    const next = end < items.length ? Buffer.from(String(end)).toString('base64url') : null
    return { status: 200, body: { items: items.slice(from, end), next_page_token: next } }
  }

  const fake: Fake = {
    hosts: [host],
    credential: { token, ...(baseUrl !== undefined && { baseUrl }) },
    wrongCredential: { token: 'CCIPAT_wrong', ...(baseUrl !== undefined && { baseUrl }) },
    target,
    options: {},
    answer,
    violations,
    state: () => new Map([...variables].map(([name, { value }]) => [name, value])),
    tamper(name, value) {
      const updatedAt = now()
      if (value === undefined) variables.delete(name)
      else variables.set(name, { value, createdAt: updatedAt, updatedAt })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: kind === 'context' ? 1 : 0 },
  }
  return fake
}
