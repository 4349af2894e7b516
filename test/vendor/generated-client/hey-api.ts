/** One call of each area through the client that @hey-api/openapi-ts writes. Prints what the calls return. */
import { client } from './client/client.gen.js'
import * as api from './client/index.js'

const [baseUrl = '', session = ''] = process.argv.slice(2)
client.setConfig({ baseUrl, auth: session })

const throwOnError = true
const main = { path: { ws: 'main' }, throwOnError } as const
const project = { path: { ws: 'main', prj: 'api' }, throwOnError } as const
const { data: me } = await api.getMe({ throwOnError })
type Operation = api.SetOperation | api.RenameOperation | api.DeleteOperation
const write = (...operations: Operation[]) =>
  api.postWorkspaceByWsProjectByPrjSecretBatch({ ...project, body: { environmentId: 'development', operations } })
await write({ op: 'set', key: 'A', value: '1' }, { op: 'set', key: 'B', value: '2', environmentId: 'staging' })
const written = await write({ op: 'rename', key: 'A', to: 'C' }, { op: 'delete', key: 'B', environmentId: 'staging' })
const listed = await api.getWorkspaceByWsProjectByPrjSecret({
  ...project,
  query: { environmentId: ['development', 'staging'], resolve: true },
})
const one = { environmentId: 'development', key: ['C'] }
const text = await api.getWorkspaceByWsProjectByPrjSecretExport({ ...project, query: one })
const object = await api.getWorkspaceByWsProjectByPrjSecretExport({ ...project, query: { ...one, format: 'json' } })
await write({ op: 'delete', key: 'C' })
const account = { name: 'hey-api', grants: [{ role: 'member' as const, scope: { all: true } }] }
const explained = { actor: me.email, action: 'workspace:read' } as const
const cli = { environmentId: 'staging', project: 'api' }
const environments = await api.getWorkspaceByWsProjectByPrjEnvironment(project)
const share = await api.postWorkspaceByWsProjectByPrjSecretShare({
  ...project,
  body: { content: 'hello', expiresIn: 300 },
})
const { data: teams } = await api.getWorkspaceByWsProject(main)
console.log(
  JSON.stringify({
    access: (await api.getWorkspaceByWsExplain({ ...main, query: explained })).data.allowed,
    audit: (await api.getWorkspaceByWsAuditVerify(main)).data.ok,
    auth: (await api.getAuthState({ throwOnError })).data,
    environment: environments.data.map(({ name }) => name),
    me: me.email,
    member: (await api.getWorkspaceByWsRbac(main)).data.length,
    oidc: (await api.getWorkspaceByWsOidc(main)).data.length,
    project: teams.flatMap(({ projects }) => projects.map(({ slug }) => slug)),
    secret: {
      results: written.data.results.map(({ status }) => status),
      listed: listed.data.map(({ name }) => name),
      text: text.data,
      object: object.data,
    },
    'secret-share': share.data.maxViews,
    service: (await api.postWorkspaceByWsServiceAccount({ ...main, body: account })).data.name,
    sync: (await api.getSync({ throwOnError })).data.some(({ slug }) => slug === 'heroku'),
    team: (await api.getWorkspaceByWsTeam(main)).data.length,
    tokens: (await api.postWorkspaceByWsTokensCli({ ...main, body: cli })).data.token,
    workspace: (await api.getWorkspace({ throwOnError })).data.map(({ slug }) => slug),
  }),
)
