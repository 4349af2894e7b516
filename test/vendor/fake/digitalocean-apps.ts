/** The spec of one App Platform app; driven by @digitalocean/dots in digitalocean-apps.test.ts. */
import { randomBytes } from 'node:crypto'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

type Env = { key: string; value?: string; scope?: string; type?: string }
type Component = { name: string; envs?: Env[] } & Record<string, unknown>
export type Spec = { name: string; envs?: Env[]; services?: Component[]; workers?: Component[] } & Record<
  string,
  unknown
>

const token = 'dop_v1_fake0001'
const app = '00000000-0000-4000-8000-000000000001'
const kinds = ['services', 'workers', 'jobs', 'functions', 'static_sites'] as const
/** A bindable variable, which the vendor replaces by the value of another component. */
export const reference = `$${'{db.DATABASE_URL}'}`
/** Fields in the vendor's description; app-wide envs appear only in its documentation. */
const known = new Set(
  'name region envs databases domains services static_sites jobs workers functions ingress egress maintenance vpc alerts features disable_edge_cache disable_email_obfuscation enhanced_threat_control_enabled'.split(
    ' ',
  ),
)

export type FakeApps = Fake & {
  spec(): Spec
  deployments(): number
  seal(value: string): string
}

export function fakeApps({ component = 'web', hasAccountScope = true } = {}): FakeApps {
  const violations: string[] = []
  const sealed = new Map<string, string>()
  let exists = true
  let deployments = 0
  let spec: Spec = {
    name: 'shop',
    region: 'fra',
    envs: component === '*' ? [] : [{ key: 'SHARED', value: seal('s'), scope: 'RUN_TIME', type: 'SECRET' }],
    services: [
      {
        name: 'web',
        http_port: 8080,
        instance_count: 2,
        github: { repo: 'example/shop', branch: 'main', deploy_on_push: true },
        envs: [],
      },
      { name: 'api', envs: [{ key: 'API_KEY', value: seal('k'), scope: 'RUN_TIME', type: 'SECRET' }] },
    ],
    workers: [{ name: 'mail', envs: [{ key: 'OPEN', value: reference, scope: 'RUN_TIME', type: 'GENERAL' }] }],
    databases: [{ name: 'db', engine: 'PG', production: true }],
  }
  function seal(value: string): string {
    const text = `EV[1:${randomBytes(18).toString('base64')}:${randomBytes(12).toString('base64')}]`
    sealed.set(text, value)
    return text
  }

  const refuse = (status: number, id: string, message: string): FakeAnswer => ({ status, body: { id, message } })

  function answer(request: FakeRequest): FakeAnswer {
    const { method, path } = request
    if (request.headers.authorization !== `Bearer ${token}`) {
      return refuse(401, 'unauthorized', 'Unable to authenticate you')
    }
    if (path === '/v2/account') {
      return hasAccountScope
        ? { status: 200, body: { account: { email: 'ops@example.com', status: 'active' } } }
        : refuse(403, 'forbidden', 'You are not authorized to perform this operation')
    }
    if (path === '/v2/apps' && method === 'GET') return listApps(request)
    if (path !== `/v2/apps/${app}` || !exists) return refuse(404, 'not_found', 'app not found')
    if (method === 'GET') return { status: 200, body: appBody() }
    if (method === 'PUT') return update(request)
    violations.push(`${method} ${path}`)
    return refuse(405, 'method_not_allowed', 'method not allowed')
  }

  const appBody = () => ({
    app: { id: app, spec, created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' },
  })

  function listApps({ query }: FakeRequest): FakeAnswer {
    const all = [
      { id: '00000000-0000-4000-8000-000000000002', spec: { name: 'docs' } },
      ...(exists ? [{ id: app, spec }] : []),
    ]
    const size = Math.min(fake.pageSize ?? 20, Number(query.get('per_page') ?? 20))
    const page = Number(query.get('page') ?? 1)
    const next = `https://api.digitalocean.com/v2/apps?page=${page + 1}&per_page=${size}`
    const links = page * size < all.length ? { pages: { next } } : {}
    return {
      status: 200,
      body: { apps: all.slice((page - 1) * size, page * size), links, meta: { total: all.length } },
    }
  }

  function update({ json }: FakeRequest): FakeAnswer {
    const { spec: given, ...rest } = json as { spec: Spec }
    const strange = [
      ...Object.keys(rest).filter((name) => name !== 'update_all_source_versions'),
      ...Object.keys(given).filter((name) => !known.has(name)),
    ]
    if (strange.length > 0) violations.push(`unknown fields: ${strange}`)
    if (typeof given.name !== 'string') return refuse(400, 'bad_request', 'error validating app spec field "name"')
    const holders = [given, ...kinds.flatMap((kind) => (given[kind] ?? []) as Component[])]
    for (const holder of holders) {
      const refusal = refusalOf(holder.envs ?? [])
      if (refusal !== undefined) return refuse(400, 'bad_request', refusal)
    }
    spec = structuredClone(given)
    for (const holder of [spec, ...kinds.flatMap((kind) => (spec[kind] ?? []) as Component[])]) {
      for (const env of holder.envs ?? []) {
        if (env.type === 'SECRET' && !isSealed(env.value)) env.value = seal(env.value ?? '')
      }
    }
    deployments++
    return { status: 200, body: appBody() }
  }

  const isSealed = (value = '') => value.startsWith('EV[1:')

  function refusalOf(envs: Env[]): string | undefined {
    for (const { key, value = '', scope, type, ...rest } of envs) {
      if (Object.keys(rest).length > 0) violations.push(`unknown fields of a variable: ${Object.keys(rest)}`)
      if (scope !== undefined && !/^(UNSET|RUN_TIME|BUILD_TIME|RUN_AND_BUILD_TIME)$/.test(scope))
        return `scope ${scope}`
      if (type !== undefined && !/^(GENERAL|SECRET)$/.test(type)) return `type ${type}`
      if (!/^[_A-Za-z][_A-Za-z0-9]*$/.test(key) || fake.refusedNames.has(key)) {
        return `error validating app spec field "envs.key": ${key} is invalid (${value})`
      }
      if (isSealed(value) && !sealed.has(value))
        return `error validating app spec field "envs.value": cannot decrypt ${key}`
      if (envs.filter((env) => env.key === key).length > 1) return `duplicate variable ${key}`
    }
    return undefined
  }

  function envsHere(): Env[] {
    const holder =
      component === '*'
        ? spec
        : kinds.flatMap((kind) => (spec[kind] ?? []) as Component[]).find(({ name }) => name === component)
    if (holder === undefined) return []
    holder.envs ??= []
    return holder.envs
  }

  function removeFrom(envs: Env[], key: string): void {
    const index = envs.findIndex((env) => env.key === key)
    if (index >= 0) envs.splice(index, 1)
  }

  const fake: FakeApps = {
    hosts: ['api.digitalocean.com'],
    credential: { token },
    wrongCredential: { token: 'dop_v1_fake0002' },
    target: { app, component },
    options: {},
    answer,
    violations,
    state: () => new Map(envsHere().map(({ key, value = '' }) => [key, sealed.get(value) ?? value])),
    tamper(key, value) {
      const envs = envsHere()
      const found = envs.find((env) => env.key === key)
      if (value === undefined) removeFrom(envs, key)
      else if (found !== undefined) Object.assign(found, { value: seal(value), type: 'SECRET' })
      else envs.push({ key, value: seal(value), scope: 'RUN_TIME', type: 'SECRET' })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 2, look: 1 },
    spec: () => spec,
    deployments: () => deployments,
    seal,
  }
  return fake
}
