/** Fly.io: secrets and machines of one app, and the owner of a token; driven by a generated client in fly.test.ts. */
import { createHash } from 'node:crypto'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { createGraphqlJudge, Refusal } from '../graphql-judge.ts'

const app = 'shop-production'
const macaroon = 'fm2_bWFjYXJvb24tb2YtdGhlLWZha2U=,fm2_ZGlzY2hhcmdl'

/** The part of the vendor's schema that the wizard queries. */
const schema = `
  type Query {
    viewer: Principal!
    apps(type: String, first: Int, after: String, organizationId: ID, role: String, active: Boolean): AppConnection!
  }
  interface Principal { email: String! }
  type User implements Principal { id: ID! email: String! }
  type Macaroon implements Principal { email: String! }
  type AppConnection { nodes: [App!]! pageInfo: PageInfo! totalCount: Int! }
  type App { id: ID! name: String! }
  type PageInfo { hasNextPage: Boolean! endCursor: String }
`

type Machine = {
  readonly id: string
  instance_id: string
  readonly state: string
  readonly config: { readonly image: string; readonly metadata: Record<string, string> }
  /** Secrets version at the last update. */
  secrets?: number
  launches: number
}

const machine = (id: string, state: string, group: string): Machine => ({
  id,
  instance_id: `01${id.toUpperCase()}`,
  state,
  config: { image: 'registry.example.test/shop:1', metadata: { fly_process_group: group } },
  launches: 0,
})

type FakeFly = Fake & { readonly machines: Machine[]; version(): number }

export function fakeFly(): FakeFly {
  const secrets = new Map<string, string>()
  const violations: string[] = []
  const graphql = createGraphqlJudge(schema, violations)
  const machines = [
    machine('d1', 'started', 'app'),
    machine('d2', 'stopped', 'worker'),
    machine('d3', 'started', 'fly_app_console'),
    machine('d4', 'destroyed', 'app'),
  ]
  let exists = true
  let version = 0

  /** Macaroons use the FlyV1 scheme or Bearer; with Bearer the token may still contain its scheme. */
  function isKnown({ headers }: FakeRequest): boolean {
    return [`FlyV1 ${macaroon}`, `Bearer ${macaroon}`, `Bearer FlyV1 ${macaroon}`].includes(headers.authorization ?? '')
  }

  function answer(request: FakeRequest): FakeAnswer {
    if (request.host === 'api.fly.io' || request.path === '/graphql') return graphql.answer(request, rootOf(request))
    if (!isKnown(request)) return { status: 401, body: { error: 'unauthorized' } }
    if (!exists || !request.path.startsWith(`/v1/apps/${app}/`))
      return { status: 404, body: { error: 'app not found' } }
    const path = request.path.slice(`/v1/apps/${app}`.length)
    const one = /^\/secrets\/([^/]+)$/.exec(path)?.[1]
    if (path === '/secrets' && request.method === 'GET') return { status: 200, body: { secrets: listing() } }
    if (path === '/secrets' && request.method === 'POST') return change(request)
    if (one && request.method === 'DELETE') return remove(decodeURIComponent(one))
    if (path === '/machines' && request.method === 'GET') return { status: 200, body: machines.map(shown) }
    const found = machines.find(({ id }) => path === `/machines/${id}`)
    if (found && request.method === 'POST') return updateMachine(found, request)
    violations.push(`${request.method} ${request.path}`)
    return { status: 404, body: { error: 'not found' } }
  }

  function rootOf(request: FakeRequest) {
    const guard = () => {
      if (!isKnown(request)) throw new Refusal('You must be authenticated to view this.', 'UNAUTHORIZED')
    }
    const names = [app, 'shop-staging', 'shop-tools']
    return {
      viewer: () => {
        guard()
        return { __typename: 'Macaroon', email: 'deploy-token@example.com' }
      },
      apps: ({ first, after }: { first: number; after?: string }) => {
        guard()
        const from = after === undefined || after === null ? 0 : Number(after)
        const to = from + Math.min(first, fake.pageSize ?? first)
        const nodes = names.slice(from, to).map((name) => ({ id: name, name }))
        const pageInfo = { hasNextPage: to < names.length, endCursor: String(to) }
        return { nodes, pageInfo, totalCount: names.length }
      },
    }
  }

  const digestOf = (value: string) => createHash('sha256').update(value).digest('hex').slice(0, 16)
  const listing = () =>
    [...secrets].map(([name, value]) => ({ name, digest: digestOf(value), created_at: '2026-01-01T00:00:00Z' }))

  function change({ json }: FakeRequest): FakeAnswer {
    const body = json as { values?: Record<string, unknown> }
    if (typeof body?.values !== 'object' || Object.keys(body).length !== 1) violations.push('no values, or more')
    const changes = Object.entries(body.values ?? {})
    for (const [name, value] of changes) {
      if (value !== null && typeof value !== 'string') violations.push(`${name}: neither text nor null`)
      if (fake.refusedNames.has(name)) {
        return { status: 400, body: { error: `invalid secret name ${name} for value ${value}` } }
      }
    }
    for (const [name, value] of changes) {
      if (value === null) secrets.delete(name)
      else secrets.set(name, String(value))
    }
    version += 1
    return { status: 200, body: { secrets: listing(), version } }
  }

  function remove(name: string): FakeAnswer {
    if (!secrets.delete(name)) return { status: 404, body: { error: 'secret not found' } }
    version += 1
    return { status: 200, body: { version } }
  }

  const shown = ({ id, instance_id, state, config }: Machine) => ({ id, instance_id, state, config })

  /** Replaces the configuration in a new instance, which starts unless `skip_launch` is set. */
  function updateMachine(found: Machine, { json }: FakeRequest): FakeAnswer {
    const body = json as Record<string, unknown>
    if (body.current_version !== undefined && body.current_version !== found.instance_id) {
      return { status: 412, body: { error: 'machine_version mismatch' } }
    }
    if (Number(body.min_secrets_version) > version) return { status: 412, body: { error: 'no such secrets version' } }
    if (JSON.stringify(body.config) !== JSON.stringify(found.config)) violations.push(`${found.id}: other config`)
    found.secrets = version
    found.instance_id = `${found.instance_id}X`
    if (body.skip_launch !== true) found.launches += 1
    return { status: 200, body: shown(found) }
  }

  const fake: FakeFly = {
    hosts: ['api.machines.dev', 'api.fly.io'],
    credential: { token: `FlyV1 ${macaroon}` },
    wrongCredential: { token: 'FlyV1 fm2_wrong' },
    target: { app },
    options: { restart: 'no' },
    answer,
    violations,
    state: () => new Map(secrets),
    tamper: (name, value) => void (value === undefined ? secrets.delete(name) : secrets.set(name, value)),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 1 },
    machines,
    version: () => version,
  }
  return fake
}
