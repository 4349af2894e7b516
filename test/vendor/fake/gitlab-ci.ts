/**
 * GitLab's CI/CD variables, after its source, since no API description is available as a package; driven by gitbeaker.
 */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const token = 'glpat-00000000-fake'

export type Variable = {
  key: string
  value: string
  variable_type: string
  protected: boolean
  masked: boolean
  hidden: boolean
  raw: boolean
  environment_scope: string
  description: string | null
}

type FakeGitLab = Fake & {
  /** All variables of the target, in every scope. */
  readonly variables: Variable[]
}

export type GitLabOptions = {
  kind?: 'project' | 'group'
  baseUrl?: string
  /** A plan without environment scopes for groups: the parameter is silently dropped. */
  isFreePlan?: boolean
  /** Before 16.9, groups ignore the filter parameter. */
  ignoresFilter?: boolean
  /** Before 15, only values in the Base64 alphabet can be masked, raw or not. */
  masksLess?: boolean
}

/** Declared for both calls; a server ignores undeclared parameters. */
const booleans = ['protected', 'masked', 'raw', 'masked_and_hidden'] as const

export function fakeGitLab({
  kind = 'project',
  baseUrl,
  isFreePlan,
  ignoresFilter,
  masksLess,
}: GitLabOptions = {}): FakeGitLab {
  const variables: Variable[] = []
  const violations: string[] = []
  const host = new URL(baseUrl ?? 'https://gitlab.com').host
  const scope = 'production'
  let exists = true

  const plain = (status: number, text: string): FakeAnswer => ({ status, body: { message: `${status} ${text}` } })
  const invalid = (field: string, text: string): FakeAnswer => ({ status: 400, body: { message: { [field]: [text] } } })
  const notFound = () => plain(404, kind === 'group' ? 'GroupVariable Not Found' : 'Variable Not Found')

  function answer(request: FakeRequest): FakeAnswer {
    const { method, headers } = request
    const path = request.path.replace(/^\/api\/v4/, '')
    if (path === request.path) return plain(404, 'Not Found')
    const isKnown = headers['private-token'] === token || headers.authorization === `Bearer ${token}`
    if (!isKnown) return plain(401, 'Unauthorized')
    if (method === 'GET' && path === '/user') return { status: 200, body: { id: 7, username: 'project_42_bot' } }
    if (method === 'GET' && path === '/projects') {
      return page(request, [
        { id: 42, path_with_namespace: 'acme/shop' },
        { id: 43, path_with_namespace: 'acme/blog' },
      ])
    }
    if (method === 'GET' && path === '/groups') return page(request, [{ id: 9, full_path: 'acme' }])
    const place = /^\/(?:projects\/(?:42|acme%2Fshop)|groups\/(?:9|acme))\/variables(?:\/([^/]+))?$/.exec(path)
    const [, key] = place ?? []
    const isHere = place !== null && path.startsWith(kind === 'group' ? '/groups/' : '/projects/')
    if (!exists || !isHere) return plain(404, kind === 'group' ? 'Group Not Found' : 'Project Not Found')
    return key === undefined ? collection(request) : single(request, key)
  }

  function collection(request: FakeRequest): FakeAnswer {
    if (request.method === 'GET') return page(request, variables.map(show))
    if (request.method !== 'POST') return plain(405, 'Method Not Allowed')
    const params = readParams(request, true)
    const { key = '', environment_scope = '*' } = params as { key?: string; environment_scope?: string }
    const kept = kind === 'group' && isFreePlan ? '*' : environment_scope
    const variable: Variable = {
      key,
      value: '',
      variable_type: 'env_var',
      protected: false,
      masked: false,
      hidden: false,
      raw: false,
      description: null,
      ...params,
      environment_scope: kept,
    }
    if (variables.some((other) => other.key === key && other.environment_scope === kept)) {
      return invalid('key', `(${key}) has already been taken`)
    }
    return check(variable) ?? store(variable)
  }

  function store(variable: Variable): FakeAnswer {
    variables.push(variable)
    return { status: 201, body: show(variable) }
  }

  function single(request: FakeRequest, key: string): FakeAnswer {
    const { method } = request
    const filter = filterOf(request)
    const named = variables.filter((variable) => variable.key === key)
    const found =
      filter === undefined || ignoresFilter ? named : named.filter((one) => one.environment_scope === filter)
    if (found.length > 1) {
      return plain(409, "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'")
    }
    // Without a match for the scope, GitLab's group update takes the first variable of that key.
    const [variable] = kind === 'group' && method === 'PUT' && found.length === 0 ? named : found
    if (!variable) return notFound()
    if (method === 'GET') return { status: 200, body: show(variable) }
    if (method === 'DELETE') {
      variables.splice(variables.indexOf(variable), 1)
      return { status: 204 }
    }
    if (method !== 'PUT') return plain(405, 'Method Not Allowed')
    const changed = { ...variable, ...readParams(request, false), key: variable.key }
    const wrong = check(changed)
    if (!wrong) Object.assign(variable, changed)
    return wrong ?? { status: 200, body: show(variable) }
  }

  function readParams({ method, path, json, query }: FakeRequest, isNew: boolean): Partial<Variable> {
    const given = { ...Object.fromEntries(query), ...(json as Record<string, unknown>) }
    const complain = (what: string) => violations.push(`${method} ${path}: ${what}`)
    for (const name of ['key', 'value']) if (isNew && typeof given[name] !== 'string') complain(`${name} is missing`)
    for (const name of booleans)
      if (given[name] !== undefined && typeof given[name] !== 'boolean') complain(`${name} is no boolean`)
    if (!['env_var', 'file', undefined].includes(given.variable_type as string)) complain('variable_type')
    const known = ['key', 'value', 'protected', 'masked', 'raw', 'variable_type', 'environment_scope', 'description']
    return Object.fromEntries(Object.entries(given).filter(([name]) => known.includes(name)))
  }

  function check({ key, value, masked, raw, description }: Variable): FakeAnswer | undefined {
    const maskable = raw && !masksLess ? /^\S{8,}$/ : /^[a-zA-Z0-9_+=/@:.~-]{8,}$/
    if (!/^[A-Za-z0-9_]{1,255}$/.test(key) || fake.refusedNames.has(key)) {
      return invalid('key', "can contain only letters, digits and '_'.")
    }
    if (masked && !maskable.test(value)) return invalid('value', `${value} is invalid`)
    if ((description ?? '').length > 255) return invalid('description', 'is too long (maximum is 255 characters)')
    return undefined
  }

  const show = (variable: Variable) => ({ ...variable, value: variable.hidden ? null : variable.value })

  /** Grape accepts parameters in the query and in the body. */
  function filterOf({ query, json }: FakeRequest): string | undefined {
    const fromBody = (json as { filter?: { environment_scope?: string } } | undefined)?.filter?.environment_scope
    return query.get('filter[environment_scope]') ?? fromBody
  }

  function page({ query, url }: FakeRequest, items: readonly unknown[]): FakeAnswer {
    const size = Math.min(Number(query.get('per_page') ?? 20), fake.pageSize ?? 100)
    const number = Number(query.get('page') ?? 1)
    const next = new URL(url, `https://${host}`)
    next.searchParams.set('page', String(number + 1))
    const isLast = number * size >= items.length
    const headers = { 'x-page': String(number), 'x-next-page': isLast ? '' : String(number + 1), 'x-total-pages': '9' }
    const link = isLast ? {} : { link: `<${next.href}>; rel="next"` }
    return { status: 200, headers: { ...headers, ...link }, body: items.slice((number - 1) * size, number * size) }
  }

  const ours = () => variables.filter(({ environment_scope }) => environment_scope === scope)
  const fake: FakeGitLab = {
    hosts: [host],
    credential: { token, ...(baseUrl !== undefined && { baseUrl }) },
    wrongCredential: { token: 'glpat-wrong', ...(baseUrl !== undefined && { baseUrl }) },
    target:
      kind === 'group'
        ? { kind, group: '9', environmentScope: scope }
        : { kind, project: '42', environmentScope: scope },
    options: { masked: 'try', protected: 'no', type: 'env_var' },
    answer,
    violations,
    state: () => new Map(ours().map(({ key, value }) => [key, value])),
    tamper(key, value) {
      const at = variables.findIndex((one) => one.key === key && one.environment_scope === scope)
      const known = at < 0 ? undefined : variables.splice(at, 1)[0]
      if (value === undefined) return
      const foreign = { variable_type: 'env_var', protected: false, masked: false, hidden: false, raw: false }
      variables.push({ ...foreign, description: null, ...known, key, value, environment_scope: scope })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: () => 1, update: kind === 'group' ? 2 : 1, look: 1 },
    variables,
  }
  return fake
}
