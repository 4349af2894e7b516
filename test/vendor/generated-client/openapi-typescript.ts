/** One call of each area through openapi-fetch, with the types that openapi-typescript writes. Prints what the calls return. */
import createClient from 'openapi-fetch'
import type { paths } from './client/schema.js'

const [baseUrl = '', session = ''] = process.argv.slice(2)
const api = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${session}` } })

async function get<Data>(asked: Promise<{ data?: Data; error?: unknown; response: Response }>): Promise<Data> {
  const { data, error, response } = await asked
  if (data === undefined) throw new Error(`${response.status} of ${response.url}: ${JSON.stringify(error)}`)
  return data
}

const main = { path: { ws: 'main' } }
const project = { ws: 'main', prj: 'api' }
const secrets = '/v1/workspace/{ws}/project/{prj}/secret'
const me = await get(api.GET('/v1/me'))
type Operation = NonNullable<
  paths[`${typeof secrets}/batch`]['post']['requestBody']
>['content']['application/json']['operations'][number]
const write = (...operations: Operation[]) =>
  get(api.POST(`${secrets}/batch`, { params: { path: project }, body: { environmentId: 'development', operations } }))
await write({ op: 'set', key: 'A', value: '1' }, { op: 'set', key: 'B', value: '2', environmentId: 'staging' })
const written = await write({ op: 'rename', key: 'A', to: 'C' }, { op: 'delete', key: 'B', environmentId: 'staging' })
const environmentId = ['development', 'staging']
const listed = await get(api.GET(secrets, { params: { path: project, query: { environmentId, resolve: true } } }))
const exported = { path: project, query: { environmentId: 'development', key: ['C'] } }
const text = await get(api.GET(`${secrets}/export`, { params: exported, parseAs: 'text' }))
const json = { ...exported, query: { ...exported.query, format: 'json' } } as const
const object = await get(api.GET(`${secrets}/export`, { params: json }))
await write({ op: 'delete', key: 'C' })
const explained = { ...main, query: { actor: me.email, action: 'workspace:read' } } as const
const list = await Promise.all([
  get(api.GET('/v1/workspace')),
  get(api.GET('/v1/workspace/{ws}/team', { params: main })),
  get(api.GET('/v1/workspace/{ws}/project', { params: main })),
  get(api.GET('/v1/workspace/{ws}/project/{prj}/environment', { params: { path: project } })),
  get(api.GET('/v1/workspace/{ws}/rbac', { params: main })),
  get(api.GET('/v1/workspace/{ws}/oidc', { params: main })),
  get(api.GET('/v1/sync')),
])
const [workspaces, teams, groups, environments, members, identities, providers] = list
const content = { content: 'hello', expiresIn: 300 }
const share = await get(api.POST(`${secrets}-share`, { params: { path: project }, body: content }))
const account = { name: 'openapi-typescript', grants: [{ role: 'member' as const, scope: { all: true } }] }
const cli = { environmentId: 'staging', project: 'api' }
console.log(
  JSON.stringify({
    access: (await get(api.GET('/v1/workspace/{ws}/explain', { params: explained }))).allowed,
    audit: (await get(api.GET('/v1/workspace/{ws}/audit/verify', { params: main }))).ok,
    auth: await get(api.GET('/v1/auth/state')),
    environment: environments.map(({ name }) => name),
    me: me.email,
    member: members.length,
    oidc: identities.length,
    project: groups.flatMap(({ projects }) => projects.map(({ slug }) => slug)),
    secret: {
      results: written.results.map(({ status }) => status),
      listed: listed.map(({ name }) => name),
      text,
      object,
    },
    'secret-share': share.maxViews,
    service: (await get(api.POST('/v1/workspace/{ws}/service-account', { params: main, body: account }))).name,
    sync: providers.some(({ slug }) => slug === 'heroku'),
    team: teams.length,
    tokens: (await get(api.POST('/v1/workspace/{ws}/tokens/cli', { params: main, body: cli }))).token,
    workspace: workspaces.map(({ slug }) => slug),
  }),
)
