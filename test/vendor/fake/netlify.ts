/** Netlify's environment variables; its own description checks each request and response. */
import description from '@netlify/open-api/dist/swagger.json' with { type: 'json' }
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { type Swagger, swaggerJudge } from '../swagger-judge.ts'

type Value = { id: string; context: string; context_parameter?: string; value: string }
type Variable = { key: string; is_secret: boolean; scopes: string[]; values: Value[]; updated_at: string }
type NewVariable = Partial<Pick<Variable, 'is_secret' | 'scopes'>> & { key: string; values: Omit<Value, 'id'>[] }

const token = 'nfp_fake-token-0001'
const account = 'acme'
const site = '00000000-0000-4000-8000-000000000001'
const judge = swaggerJudge(description as unknown as Swagger)

export type FakeNetlify = Fake & {
  readonly variables: Map<string, Variable>
  /** A change by a person on Netlify's site. */
  setValue(key: string, context: string, value: string): void
}

export function fakeNetlify({ context = 'production', branch = '', isShared = false } = {}): FakeNetlify {
  const variables = new Map<string, Variable>()
  const violations: string[] = []
  let exists = true
  let clock = Date.parse('2026-01-01T00:00:00Z')
  let ids = 0

  const refuse = (code: number, msg: string): FakeAnswer => ({ status: code, body: { code, msg } })
  const env = `/api/v1/accounts/${account}/env`

  function answer(request: FakeRequest): FakeAnswer {
    const broken = judge.request(request)
    if (broken.length > 0) {
      violations.push(...broken)
      return refuse(400, broken.join('; '))
    }
    const answer = answerTo(request)
    violations.push(...judge.answer(request, answer))
    return answer
  }

  function answerTo(request: FakeRequest): FakeAnswer {
    const { method, path, query } = request
    if (request.headers.authorization !== `Bearer ${token}`) return refuse(401, 'Access Denied')
    if (path === '/api/v1/user') return { status: 200, body: { id: 'u1', email: 'ops@example.com' } }
    if (path === '/api/v1/accounts')
      return page(request, [
        { id: 'a2', name: 'Labs', slug: 'labs' },
        { id: 'a1', name: 'Acme', slug: account },
      ])
    if (path === `/api/v1/${account}/sites`) {
      return page(request, [
        { id: '00000000-0000-4000-8000-000000000002', name: 'docs' },
        ...(exists ? [{ id: site, name: 'shop' }] : []),
      ])
    }
    const isHere = isShared ? query.get('site_id') === null : query.get('site_id') === site
    if (!exists || !isHere || !(path === env || path.startsWith(`${env}/`))) return refuse(404, 'Not Found')
    if (path === env)
      return method === 'GET' ? { status: 200, body: [...variables.values()].map(shown) } : create(request)
    const [key = '', , id] = path
      .slice(env.length + 1)
      .split('/')
      .map(decodeURIComponent)
    const variable = variables.get(key)
    if (variable === undefined) return refuse(404, `Environment variable ${key} not found`)
    if (method === 'GET') return { status: 200, body: shown(variable) }
    if (method === 'PATCH') return patch(variable, request)
    if (method === 'PUT') return replace(variable, request)
    if (id === undefined) variables.delete(key)
    else if (!variable.values.some((value) => value.id === id)) return refuse(404, 'Value not found')
    else touch(variable).values = variable.values.filter((value) => value.id !== id)
    return { status: 204 }
  }

  function page({ query, path }: FakeRequest, items: unknown[]): FakeAnswer {
    const size = Math.min(fake.pageSize ?? 100, Number(query.get('per_page') ?? 100))
    const number = Number(query.get('page') ?? 1)
    const next = `<https://api.netlify.com${path}?page=${number + 1}&per_page=${size}>; rel="next"`
    const isLast = number * size >= items.length
    const headers = isLast || path.endsWith('/accounts') ? {} : { link: next }
    const shown = path.endsWith('/accounts') ? items : items.slice((number - 1) * size, number * size)
    return { status: 200, headers, body: shown }
  }

  /** For a secret, only the value for local development is visible. */
  const shown = (variable: Variable) => ({
    ...variable,
    values: variable.values.map((value) =>
      variable.is_secret && value.context !== 'dev' ? { ...value, value: '****************' } : value,
    ),
  })

  function touch(variable: Variable): Variable {
    clock += 1_000
    return Object.assign(variable, { updated_at: new Date(clock).toISOString() })
  }

  const withId = (value: Omit<Value, 'id'>): Value => ({
    ...value,
    id: `00000000-0000-4000-9000-${String(++ids).padStart(12, '0')}`,
  })

  function create({ json }: FakeRequest): FakeAnswer {
    const given = json as NewVariable[]
    for (const variable of given) {
      const { key, values, is_secret = false, scopes = [] } = variable
      const value = values[0]?.value
      if (fake.refusedNames.has(key) || !/^[A-Za-z]\w*$/.test(key))
        return refuse(422, `Key ${key} is invalid (value: ${value})`)
      if (variables.has(key)) return refuse(422, `Environment variable ${key} already exists`)
      if (is_secret && scopes.length === 0) return refuse(422, 'Secrets cannot be used in post-processing')
      if (is_secret && scopes.includes('post-processing'))
        return refuse(422, 'Secrets cannot be used in post-processing')
      if (is_secret && values.some((one) => one.context === 'all')) return refuse(422, 'Secrets need a context')
    }
    const made = given.map(({ key, values, is_secret = false, scopes }) => {
      const all = ['builds', 'functions', 'runtime', 'post-processing']
      const variable = touch({ key, is_secret, scopes: scopes ?? all, values: values.map(withId), updated_at: '' })
      variables.set(key, variable)
      return shown(variable)
    })
    return { status: 201, body: made }
  }

  function patch(variable: Variable, { json }: FakeRequest): FakeAnswer {
    const given = json as Omit<Value, 'id'>
    if (given.context === 'branch' && !given.context_parameter) return refuse(422, 'A branch is needed')
    set(variable, given)
    return { status: 201, body: shown(variable) }
  }

  function set(variable: Variable, given: Omit<Value, 'id'>): void {
    const found = variable.values.find(
      (value) => value.context === given.context && value.context_parameter === given.context_parameter,
    )
    if (found === undefined) variable.values.push(withId(given))
    else found.value = given.value
    touch(variable)
  }

  function replace(variable: Variable, { json }: FakeRequest): FakeAnswer {
    const { values, ...rest } = json as NewVariable
    touch(Object.assign(variable, rest, { values: values.map(withId) }))
    return { status: 200, body: shown(variable) }
  }

  const isWatched = (value: Value) => value.context === context && (value.context_parameter ?? '') === branch
  const place = { context, ...(branch !== '' && { context_parameter: branch }) }

  function tamper(key: string, value: string | undefined): void {
    const variable =
      variables.get(key) ?? touch({ key, is_secret: false, scopes: ['builds'], values: [], updated_at: '' })
    if (value !== undefined) set(variable, { ...place, value })
    else variable.values = variable.values.filter((one) => !isWatched(one))
    if (variable.values.length === 0) variables.delete(key)
    else variables.set(key, variable)
  }

  const fake: FakeNetlify = {
    hosts: ['api.netlify.com'],
    credential: { token },
    wrongCredential: { token: 'nfp_fake-token-0002' },
    target: { account, site: isShared ? 'team' : site, context, ...(branch !== '' && { branch }) },
    options: {},
    answer,
    violations,
    state: () =>
      new Map(
        [...variables.values()].flatMap(({ key, values }) => {
          const own = values.find(isWatched)
          return own === undefined ? [] : [[key, own.value] as const]
        }),
      ),
    tamper,
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 1 },
    variables,
    setValue(key, at, value) {
      const variable =
        variables.get(key) ?? touch({ key, is_secret: false, scopes: ['builds'], values: [], updated_at: '' })
      variables.set(key, variable)
      set(variable, { context: at, value })
    },
  }
  return fake
}
