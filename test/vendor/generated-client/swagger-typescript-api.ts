/** One call of each area through the client that swagger-typescript-api writes. Prints what the calls return. */
import { Api, type DeleteOperation, type RenameOperation, type SetOperation } from './client/api.js'

const [baseUrl = '', session = ''] = process.argv.slice(2)
const { v1: api } = new Api({ baseUrl, baseApiParams: { headers: { authorization: `Bearer ${session}` } } })

const ws = 'main'
const prj = 'api'
const { data: me } = await api.getMe()
type Operation = SetOperation | RenameOperation | DeleteOperation
const write = (...operations: Operation[]) =>
  api.postWorkspaceByWsProjectByPrjSecretBatch(ws, prj, { environmentId: 'development', operations })
await write({ op: 'set', key: 'A', value: '1' }, { op: 'set', key: 'B', value: '2', environmentId: 'staging' })
const written = await write({ op: 'rename', key: 'A', to: 'C' }, { op: 'delete', key: 'B', environmentId: 'staging' })
const environmentId = ['development', 'staging']
const listed = await api.getWorkspaceByWsProjectByPrjSecret(ws, prj, { environmentId, resolve: true })
const one = { environmentId: 'development', key: ['C'] }
const text = await api.getWorkspaceByWsProjectByPrjSecretExport(ws, prj, one, { format: 'text' })
const object = await api.getWorkspaceByWsProjectByPrjSecretExport(ws, prj, { ...one, format: 'json' })
await write({ op: 'delete', key: 'C' })
const account = { name: 'swagger-typescript-api', grants: [{ role: 'member' as const, scope: { all: true } }] }
const cli = { environmentId: 'staging', project: prj }
const environments = await api.getWorkspaceByWsProjectByPrjEnvironment(ws, prj)
const content = { content: 'hello', expiresIn: 300 }
const explained = { actor: me.email, action: 'workspace:read' } as const
const { data: teams } = await api.getWorkspaceByWsProject(ws)
console.log(
  JSON.stringify({
    access: (await api.getWorkspaceByWsExplain(ws, explained)).data.allowed,
    audit: (await api.getWorkspaceByWsAuditVerify(ws)).data.ok,
    auth: (await api.getAuthState()).data,
    environment: environments.data.map(({ name }) => name),
    me: me.email,
    member: (await api.getWorkspaceByWsRbac(ws)).data.length,
    oidc: (await api.getWorkspaceByWsOidc(ws)).data.length,
    project: teams.flatMap(({ projects }) => projects.map(({ slug }) => slug)),
    secret: {
      results: written.data.results.map(({ status }) => status),
      listed: listed.data.map(({ name }) => name),
      text: text.data,
      object: object.data,
    },
    'secret-share': (await api.postWorkspaceByWsProjectByPrjSecretShare(ws, prj, content)).data.maxViews,
    service: (await api.postWorkspaceByWsServiceAccount(ws, account)).data.name,
    sync: (await api.getSync()).data.some(({ slug }) => slug === 'heroku'),
    team: (await api.getWorkspaceByWsTeam(ws)).data.length,
    tokens: (await api.postWorkspaceByWsTokensCli(ws, cli)).data.token,
    workspace: (await api.getWorkspace()).data.map(({ slug }) => slug),
  }),
)
