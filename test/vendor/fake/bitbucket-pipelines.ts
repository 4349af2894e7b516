/**
 * Bitbucket's Pipelines variables; driven by the `bitbucket` client, which is generated from Atlassian's description.
 */
import { randomUUID } from 'node:crypto'
import type { Values } from '../../../server/src/providers/provider.ts'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const token = 'ATCTT-00000000-fake'
const email = 'ops@example.com'
const environment = '{3fa85f64-5717-4562-b3fc-2c963f66afa6}'

const repository = '/2.0/repositories/acme/shop'
const places = {
  repository: { path: `${repository}/pipelines_config/variables`, target: { kind: 'repository' } as Values },
  deployment: {
    path: `${repository}/deployments_config/environments/${environment}/variables`,
    target: { kind: 'deployment', environment } as Values,
  },
}

export type Variable = { uuid: string; key: string; value: string; secured: boolean }
type FakeBitbucket = Fake & {
  readonly variables: Variable[]
  isReadOnly: boolean
}

export function fakeBitbucket(
  kind: keyof typeof places = 'repository',
  { withEmail = false }: { withEmail?: boolean } = {},
): FakeBitbucket {
  const { path: home, target } = places[kind]
  const variables: Variable[] = []
  const violations: string[] = []
  let exists = true

  const accepted = withEmail ? `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}` : `Bearer ${token}`
  const refuse = (status: number, message: string, detail = message): FakeAnswer => ({
    status,
    body: { type: 'error', error: { message, detail } },
  })

  function answer(request: FakeRequest): FakeAnswer {
    const { method } = request
    if (request.headers.authorization !== accepted)
      return refuse(401, 'Token is invalid or not supported for this endpoint.')
    const path = decodeURIComponent(request.path)
    if (/[{}]/.test(request.url)) violations.push(`${method} ${path}: unescaped braces`)
    if (method === 'GET' && path === '/2.0/user') {
      if (!withEmail) return refuse(403, 'Your credentials lack one or more required privilege scopes.')
      return { status: 200, body: { type: 'user', display_name: 'Acme Ops', uuid: '{1}' } }
    }
    if (method === 'GET' && path === '/2.0/repositories/acme') {
      return page(
        request,
        ['blog', 'shop'].map((slug) => ({ type: 'repository', slug, name: slug, full_name: `acme/${slug}` })),
      )
    }
    if (!exists) return refuse(404, 'Not found', 'There is no such repository.')
    if (method === 'GET' && path === `${repository}/environments`) {
      return page(request, [{ type: 'deployment_environment', uuid: environment, name: 'Production' }])
    }
    if (path !== home && !path.startsWith(`${home}/`)) return refuse(404, 'Not found')
    if (method !== 'GET' && fake.isReadOnly) return refuse(404, 'Not found')
    return path === home ? collection(request) : single(request, path.slice(home.length + 1))
  }

  function collection(request: FakeRequest): FakeAnswer {
    if (request.method === 'GET') return page(request, variables.map(show))
    if (request.method !== 'POST') return refuse(405, 'Method not allowed')
    const fields = fieldsOf(request)
    if (variables.some(({ key }) => key === fields.key))
      return refuse(409, 'Conflict', 'A variable with the provided key already exists.')
    const wrong = check(fields)
    if (wrong) return wrong
    const variable = { ...fields, uuid: `{${randomUUID()}}` }
    variables.push(variable)
    return { status: 201, body: show(variable) }
  }

  function single(request: FakeRequest, uuid: string): FakeAnswer {
    const variable = variables.find((one) => one.uuid === uuid)
    if (!variable) return refuse(404, 'Not found', 'There is no such variable.')
    if (request.method === 'GET') return { status: 200, body: show(variable) }
    if (request.method === 'DELETE') {
      variables.splice(variables.indexOf(variable), 1)
      return { status: 204, headers: { 'content-type': 'text/html; charset=utf-8' } }
    }
    if (request.method !== 'PUT') return refuse(405, 'Method not allowed')
    const fields = fieldsOf(request)
    const wrong = check(fields)
    if (!wrong) Object.assign(variable, fields)
    return wrong ?? { status: 200, body: show(variable) }
  }

  function fieldsOf({ method, path, json }: FakeRequest): Omit<Variable, 'uuid'> {
    const fields = (json ?? {}) as Record<string, unknown>
    const complain = (what: string) => violations.push(`${method} ${path}: ${what}`)
    if (typeof fields.key !== 'string') complain('no key')
    if (typeof fields.value !== 'string') complain('no value')
    if (typeof fields.secured !== 'boolean') complain('secured is no boolean')
    for (const name of Object.keys(fields))
      if (!['type', 'uuid', 'key', 'value', 'secured'].includes(name)) complain(name)
    return { key: String(fields.key), value: String(fields.value), secured: fields.secured === true }
  }

  function check({ key, value }: Omit<Variable, 'uuid'>): FakeAnswer | undefined {
    if (/^[A-Za-z_]\w*$/.test(key) && !fake.refusedNames.has(key)) return undefined
    return refuse(400, 'Bad request', `The key ${key} with the value ${value} is not valid.`)
  }

  const show = ({ uuid, key, value, secured }: Variable) => ({
    type: 'pipeline_variable',
    uuid,
    key,
    secured,
    ...(!secured && { value }),
  })

  function page({ query, url, host }: FakeRequest, items: readonly unknown[]): FakeAnswer {
    const size = Math.min(Number(query.get('pagelen') ?? 10), fake.pageSize ?? 100)
    const number = Number(query.get('page') ?? 1)
    const next = new URL(url, `https://${host}`)
    next.searchParams.set('page', String(number + 1))
    const values = items.slice((number - 1) * size, number * size)
    const isLast = number * size >= items.length
    return {
      status: 200,
      body: { page: number, pagelen: size, size: items.length, values, ...(!isLast && { next: next.href }) },
    }
  }

  const fake: FakeBitbucket = {
    hosts: ['api.bitbucket.org'],
    credential: { token, ...(withEmail && { email }) },
    wrongCredential: { token: 'ATCTT-wrong', ...(withEmail && { email }) },
    target: { ...target, workspace: 'acme', repository: 'shop' },
    options: {},
    answer,
    violations,
    state: () => new Map(variables.map(({ key, value }) => [key, value])),
    tamper(key, value) {
      const at = variables.findIndex((one) => one.key === key)
      const known = at < 0 ? undefined : variables.splice(at, 1)[0]
      if (value !== undefined) variables.push({ uuid: `{${randomUUID()}}`, secured: true, ...known, key, value })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 0 },
    variables,
    isReadOnly: false,
  }
  return fake
}
