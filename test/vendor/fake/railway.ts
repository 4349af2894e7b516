/** Railway's variables: a part of its schema with one project; driven by an SDK in railway.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { createGraphqlJudge, Refusal } from '../graphql-judge.ts'

const project = '11111111-1111-4111-8111-111111111111'
const environment = '22222222-2222-4222-8222-222222222222'
const service = '33333333-3333-4333-8333-333333333333'
const workspace = '44444444-4444-4444-8444-444444444444'
const projectToken = '55555555-5555-4555-8555-555555555555'
export const accountToken = '66666666-6666-4666-8666-666666666666'

const schema = `
  scalar EnvironmentVariables
  type Query {
    projectToken: ProjectToken!
    apiToken: ApiTokenContext!
    projects(after: String, before: String, first: Int, last: Int, userId: String, workspaceId: String): ProjectConnection!
    project(id: String!): Project!
    environment(id: String!, projectId: String): Environment!
    variables(projectId: String!, environmentId: String!, serviceId: String, unrendered: Boolean): EnvironmentVariables!
  }
  type Mutation {
    variableCollectionUpsert(input: VariableCollectionUpsertInput!): Boolean!
    variableDelete(input: VariableDeleteInput!): Boolean!
  }
  input VariableCollectionUpsertInput {
    projectId: String!
    environmentId: String!
    serviceId: String
    variables: EnvironmentVariables!
    replace: Boolean
    skipDeploys: Boolean
  }
  input VariableDeleteInput { projectId: String! environmentId: String! serviceId: String name: String! }
  type ProjectToken { id: ID! project: Project! environment: Environment! }
  type ApiTokenContext { workspaces: [ApiTokenWorkspace!]! }
  type ApiTokenWorkspace { id: String! name: String! }
  type PageInfo { endCursor: String hasNextPage: Boolean! }
  type ProjectConnection { edges: [ProjectEdge!]! pageInfo: PageInfo! }
  type ProjectEdge { node: Project! }
  type Project { id: ID! name: String! environments: EnvironmentConnection! services: ServiceConnection! }
  type EnvironmentConnection { edges: [EnvironmentEdge!]! pageInfo: PageInfo! }
  type EnvironmentEdge { node: Environment! }
  type Environment { id: ID! name: String! variables(first: Int, after: String): VariableConnection! }
  type ServiceConnection { edges: [ServiceEdge!]! pageInfo: PageInfo! }
  type ServiceEdge { node: Service! }
  type Service { id: ID! name: String! }
  type VariableConnection { edges: [VariableEdge!]! pageInfo: PageInfo! }
  type VariableEdge { node: Variable! }
  type Variable { id: ID! name: String! serviceId: String isSealed: Boolean! }
`

type Place = { projectId: string; environmentId: string; serviceId?: string | null }
type Variable = { value: string; serviceId: string | null; isSealed: boolean }

type FakeRailway = Fake & { seal(name: string): void; deploys(): number }

export function fakeRailway(): FakeRailway {
  /** By service (if any) and name. */
  const variables = new Map<string, Variable>()
  const violations: string[] = []
  const judge = createGraphqlJudge(schema, violations)
  let exists = true
  let deploys = 0
  const keyOf = (serviceId: string | null | undefined, name: string) => `${serviceId ?? ''}/${name}`

  function answer(request: FakeRequest): FakeAnswer {
    if (request.path !== '/graphql/v2') {
      violations.push(`${request.method} ${request.path}`)
      return { status: 404 }
    }
    return judge.answer(request, rootOf(request))
  }

  function rootOf({ headers }: FakeRequest) {
    const isProject = headers['project-access-token'] === projectToken
    const isAccount = headers.authorization === `Bearer ${accountToken}`
    const guard = (isKnown: boolean) => {
      if (!isKnown) throw new Refusal('Not Authorized', 'INTERNAL_SERVER_ERROR')
    }
    const guardPlace = ({ projectId, environmentId, serviceId }: Place) => {
      guard(isProject || isAccount)
      if (!exists || projectId !== project) throw new Refusal('Project not found', 'INTERNAL_SERVER_ERROR')
      if (environmentId !== environment) throw new Refusal('Environment not found', 'INTERNAL_SERVER_ERROR')
      if (![service, undefined, null].includes(serviceId)) {
        throw new Refusal('Service not found', 'INTERNAL_SERVER_ERROR')
      }
    }
    const pageInfo = { hasNextPage: false }
    const here = { id: environment, name: 'production', variables: () => ({ edges: edges(), pageInfo }) }
    const shop = {
      id: project,
      name: 'shop',
      environments: { edges: [{ node: here }], pageInfo },
      services: { edges: [{ node: { id: service, name: 'web' } }], pageInfo },
    }
    return {
      projectToken: () => {
        guard(isProject)
        return { id: 'token', project: shop, environment: here }
      },
      apiToken: () => {
        guard(isAccount)
        return { workspaces: [{ id: workspace, name: 'Example' }] }
      },
      projects: ({ workspaceId, first, after }: { workspaceId?: string; first: number; after?: string | null }) => {
        guard(isAccount)
        // Without a workspace id, only projects outside of all workspaces are listed.
        const all = workspaceId === workspace ? [{ ...shop, id: crypto.randomUUID() }, shop] : []
        const from = Number(after ?? 0)
        const to = from + Math.min(first, fake.pageSize ?? first)
        const edges = all.slice(from, to).map((node) => ({ node }))
        return { edges, pageInfo: { hasNextPage: to < all.length, endCursor: String(to) } }
      },
      project: ({ id }: { id: string }) => {
        guardPlace({ projectId: id, environmentId: environment })
        return shop
      },
      environment: ({ id, projectId }: { id: string; projectId?: string }) => {
        guardPlace({ projectId: projectId ?? project, environmentId: id })
        return here
      },
      variables: ({ unrendered, ...place }: Place & { unrendered?: boolean | null }) => {
        guardPlace(place)
        const render = (text: string) => (unrendered ? text : text.replace(/\$\{\{.*?\}\}/g, 'resolved'))
        const values = readable(place.serviceId).map(([name, text]) => [name, render(text)])
        return { RAILWAY_ENVIRONMENT_NAME: 'production', ...Object.fromEntries(values) }
      },
      variableCollectionUpsert: ({ input }: { input: Place & UpsertInput }) => {
        guardPlace(input)
        return upsert(input)
      },
      variableDelete: ({ input }: { input: Place & { name: string } }) => {
        guardPlace(input)
        if (!variables.delete(keyOf(input.serviceId, input.name))) {
          throw new Refusal('Variable not found', 'INTERNAL_SERVER_ERROR')
        }
        deploys += 1
        return true
      },
    }
  }

  const edges = () =>
    [...variables].map(([key, { serviceId, isSealed }]) => ({
      node: { id: key, name: key.slice(key.indexOf('/') + 1), serviceId, isSealed },
    }))

  function readable(serviceId: string | null | undefined): [string, string][] {
    const own = [...variables].filter(
      ([, variable]) => variable.serviceId === (serviceId ?? null) && !variable.isSealed,
    )
    return own.map(([key, { value }]) => [key.slice(key.indexOf('/') + 1), value])
  }

  type UpsertInput = { variables: Record<string, unknown>; replace?: boolean | null; skipDeploys?: boolean | null }

  function upsert({ serviceId = null, variables: changes, replace, skipDeploys }: Place & UpsertInput): boolean {
    for (const [name, value] of Object.entries(changes)) {
      if (typeof value !== 'string') violations.push(`${name}: not a text`)
      if (name.startsWith('RAILWAY_')) violations.push(`${name}: a name of the vendor’s own`)
      if (String(value).includes('${{')) violations.push(`${name}: a reference`)
      if (fake.refusedNames.has(name)) throw new Refusal(`Invalid variable ${name}=${value}`, 'BAD_USER_INPUT')
    }
    // A replace also removes sealed variables.
    if (replace === true)
      for (const [key, variable] of variables) if (variable.serviceId === serviceId) variables.delete(key)
    for (const [name, value] of Object.entries(changes)) {
      const key = keyOf(serviceId, name)
      variables.set(key, { value: String(value), serviceId, isSealed: variables.get(key)?.isSealed ?? false })
    }
    if (skipDeploys !== true) deploys += 1
    return true
  }

  const fake: FakeRailway = {
    hosts: ['backboard.railway.com'],
    credential: { tokenType: 'project', token: projectToken },
    wrongCredential: { tokenType: 'project', token: 'wrong' },
    target: { project, environment, service },
    options: { deploy: 'yes' },
    answer,
    violations,
    state: () =>
      new Map(
        [...variables]
          .filter(([, { serviceId }]) => serviceId === service)
          .map(([key, { value }]) => [key.slice(key.indexOf('/') + 1), value]),
      ),
    tamper: (name, value) =>
      void (value === undefined
        ? variables.delete(keyOf(service, name))
        : variables.set(keyOf(service, name), { value, serviceId: service, isSealed: false })),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 1 },
    seal: (name) => {
      const found = variables.get(keyOf(service, name))
      if (found) found.isSealed = true
    },
    deploys: () => deploys,
  }
  return fake
}
