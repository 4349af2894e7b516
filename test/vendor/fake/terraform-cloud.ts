/** HCP Terraform's variables, after its documentation. In the deep tier the JSON:API schema checks each document. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { loadJudge } from '../load-judge.ts'

const token = 'tfc-00000000.atlasv1.fake'

type Validator = { isValid(document: unknown): boolean }
const jsonapi = await loadJudge<{ default: { Validator: new () => Validator } }>('jsonapi-validator')
const validator: Validator = jsonapi ? new jsonapi.default.Validator() : { isValid: () => true }

/** The schema forbids null links, but JSON:API allows them and the vendor sends them on the last page. */
const isJsonApi = (body: unknown) =>
  validator.isValid(JSON.parse(JSON.stringify(body), (_key, value) => (value === null ? undefined : value)))

type Attributes = {
  key: string
  value: string
  sensitive: boolean
  category: string
  hcl: boolean
  description: string | null
  'created-at': string
  'version-id': string
}
type Variable = { id: string; attributes: Attributes }

type FakeTerraform = Fake & {
  readonly variables: Variable[]
  /** The token may read but not write; HCP Terraform reports a forbidden write as 404. */
  isReadOnly: boolean
}

const vars = {
  workspace: {
    path: '/api/v2/workspaces/ws-4j8p6jX1w33MiDC7/vars',
    owner: { kind: 'workspace', workspace: 'ws-4j8p6jX1w33MiDC7' },
  },
  variableSet: {
    path: '/api/v2/varsets/varset-mio9UUFyFMjU33S4/relationships/vars',
    owner: { kind: 'variableSet', variableSet: 'varset-mio9UUFyFMjU33S4' },
  },
}

export function fakeTerraform(
  kind: keyof typeof vars = 'workspace',
  { baseUrl }: { baseUrl?: string } = {},
): FakeTerraform {
  const { path: home, owner } = vars[kind]
  const host = new URL(baseUrl ?? 'https://app.terraform.io').host
  const variables: Variable[] = []
  const violations: string[] = []
  let exists = true
  let count = 0

  const refuse = (status: number, title: string, detail?: string): FakeAnswer => ({
    status,
    body: { errors: [{ status: String(status), title, ...(detail !== undefined && { detail }) }] },
  })
  const nextVersion = () => `${String(++count).padStart(8, '0')}b0d3a2c4e5f6`
  const data = (type: string, id: string, attributes: object) => ({ id, type, attributes })

  function answer(request: FakeRequest): FakeAnswer {
    const given = route(request)
    if (given.body !== undefined && !isJsonApi(given.body)) violations.push(`${request.path}: answer is no JSON:API`)
    return given
  }

  function route(request: FakeRequest): FakeAnswer {
    const { method, path, headers } = request
    if (headers.authorization !== `Bearer ${token}`) return refuse(401, 'unauthorized')
    const wrong = judge(request)
    if (wrong) return wrong
    if (method === 'GET' && path === '/api/v2/account/details') {
      return {
        status: 200,
        body: { data: data('users', 'user-1', { username: 'api-org-acme', 'is-service-account': true }) },
      }
    }
    if (method === 'GET' && path === '/api/v2/organizations')
      return page(request, [data('organizations', 'acme', { name: 'acme' })])
    if (method === 'GET' && path === '/api/v2/organizations/acme/workspaces') {
      return page(request, [
        data('workspaces', 'ws-other', { name: 'blog' }),
        data('workspaces', vars.workspace.owner.workspace, { name: 'shop' }),
      ])
    }
    if (method === 'GET' && path === '/api/v2/organizations/acme/varsets') {
      return page(request, [data('varsets', vars.variableSet.owner.variableSet, { name: 'shared' })])
    }
    if (!exists || !path.startsWith(home)) return refuse(404, 'not found')
    if (method !== 'GET' && fake.isReadOnly) return refuse(404, 'not found')
    return path === home ? collection(request) : single(request, path.slice(home.length + 1))
  }

  /** JSON:API rules: the media type, and no id in a new resource. */
  function judge({ method, path, headers, text, json }: FakeRequest): FakeAnswer | undefined {
    if (method === 'GET' || method === 'DELETE') return text === '' ? undefined : refuse(400, 'bad request')
    const complain = (what: string) => violations.push(`${method} ${path}: ${what}`)
    if (headers['content-type'] !== 'application/vnd.api+json') complain('media type')
    const document = json as { data?: Record<string, unknown> } | undefined
    const whole = method === 'POST' ? { ...document, data: { id: 'new', ...document?.data } } : document
    if (!validator.isValid(whole)) complain('no JSON:API document')
    if (document?.data?.type !== 'vars') complain('type is not vars')
    if (method === 'POST' && document?.data?.id !== undefined) complain('an id for what is new')
    if (method === 'PATCH' && !path.endsWith(`/${document?.data?.id}`)) complain('another id than in the path')
    return undefined
  }

  function collection(request: FakeRequest): FakeAnswer {
    if (request.method === 'GET') return page(request, variables.map(show))
    if (request.method !== 'POST') return refuse(404, 'not found')
    const attributes = attributesOf(request)
    if (!['env', 'terraform'].includes(String(attributes.category)))
      return refuse(422, 'invalid attribute', 'Category is invalid')
    const isTaken = variables.some(
      ({ attributes: { key, category } }) => key === attributes.key && category === attributes.category,
    )
    if (isTaken) return refuse(422, 'invalid attribute', 'Key has already been taken')
    const fresh = { key: '', value: '', sensitive: false, category: 'env', hcl: false, description: null }
    const variable = {
      id: `var-${String(++count).padStart(16, '0')}`,
      attributes: { ...fresh, ...attributes, 'created-at': '2026-01-01T00:00:00.000Z', 'version-id': nextVersion() },
    }
    const wrong = check(variable.attributes)
    if (wrong) return wrong
    variables.push(variable)
    return { status: 201, body: { data: show(variable) } }
  }

  function single(request: FakeRequest, id: string): FakeAnswer {
    const variable = variables.find((one) => one.id === id)
    if (!variable) return refuse(404, 'not found')
    if (request.method === 'GET') return { status: 200, body: { data: show(variable) } }
    if (request.method === 'DELETE') {
      variables.splice(variables.indexOf(variable), 1)
      return { status: 204 }
    }
    const changes = attributesOf(request)
    if (variable.attributes.sensitive && changes.sensitive === false && changes.value === undefined) {
      return refuse(422, 'invalid attribute', 'Sensitive cannot be changed')
    }
    const changed = { ...variable.attributes, ...changes, 'version-id': nextVersion() }
    const wrong = check(changed)
    if (!wrong) variable.attributes = changed
    return wrong ?? { status: 200, body: { data: show(variable) } }
  }

  function attributesOf({ json }: FakeRequest): Partial<Attributes> {
    const given = (json as { data?: { attributes?: Record<string, unknown> } }).data?.attributes ?? {}
    for (const name of ['sensitive', 'hcl'])
      if (given[name] !== undefined && typeof given[name] !== 'boolean') violations.push(`${name} is no boolean`)
    const known = ['key', 'value', 'sensitive', 'category', 'hcl', 'description']
    const unknown = Object.keys(given).filter((name) => !known.includes(name))
    if (unknown.length > 0) violations.push(`unknown attributes: ${unknown.join(', ')}`)
    return given
  }

  function check({ key, value, description }: Attributes): FakeAnswer | undefined {
    if (!/^[A-Za-z_][\w-]{0,127}$/.test(key) || fake.refusedNames.has(key)) {
      return refuse(422, 'invalid attribute', `Key is invalid for ${value}`)
    }
    if (Buffer.byteLength(value) > 256 * 1024) return refuse(422, 'invalid attribute', 'Value is too long')
    if ((description ?? '').length > 512) return refuse(422, 'invalid attribute', 'Description is too long')
    return undefined
  }

  const show = ({ id, attributes }: Variable) =>
    data('vars', id, { ...attributes, value: attributes.sensitive ? null : attributes.value })

  function page({ query, path }: FakeRequest, items: readonly unknown[]): FakeAnswer {
    const size = Math.min(Number(query.get('page[size]') ?? 20), fake.pageSize ?? 100)
    const number = Number(query.get('page[number]') ?? 1)
    const isLast = number * size >= items.length
    const link = (to: number) => `https://${host}${path}?page%5Bnumber%5D=${to}&page%5Bsize%5D=${size}`
    return {
      status: 200,
      body: {
        data: items.slice((number - 1) * size, number * size),
        links: { self: link(number), first: link(1), next: isLast ? null : link(number + 1) },
        meta: { pagination: { 'current-page': number, 'total-count': items.length } },
      },
    }
  }

  const category = 'env'
  const ours = () => variables.filter(({ attributes }) => attributes.category === category)
  const fake: FakeTerraform = {
    hosts: [host],
    credential: { token, ...(baseUrl !== undefined && { baseUrl }) },
    wrongCredential: { token: 'wrong', ...(baseUrl !== undefined && { baseUrl }) },
    target: { ...owner, organization: 'acme', category },
    options: {},
    answer,
    violations,
    state: () => new Map(ours().map(({ attributes: { key, value } }) => [key, value])),
    tamper(key, value) {
      const known = ours().find(({ attributes }) => attributes.key === key)
      if (known) variables.splice(variables.indexOf(known), 1)
      if (value === undefined) return
      const fresh = {
        sensitive: true,
        category,
        hcl: false,
        description: null,
        'created-at': '2026-01-01T00:00:00.000Z',
      }
      const attributes = { ...fresh, ...known?.attributes, key, value, 'version-id': nextVersion() }
      variables.push({ id: known?.id ?? `var-${++count}`, attributes })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 1 },
    variables,
    isReadOnly: false,
  }
  return fake
}
