/** Who may do what, and why: one question (`explain`), and the overview of everybody at every environment. */
import type { Endpoint, EndpointPermission } from './endpoint.ts'
import { Grant, Id, line, nullable, page, WorkspacePath, words } from './field.ts'
import { type Static, Type } from './schema.ts'

/** What can be asked about: every permission that is decided within a workspace. */
export const explainedActions = [
  'workspace:read',
  'workspace:write',
  'workspace:delete',
  'workspace:handover',
  'member:read',
  'member:write',
  'team:read',
  'team:create',
  'team:write',
  'project:read',
  'project:create',
  'project:write',
  'environment:read',
  'environment:create',
  'environment:write',
  'secret:read',
  'secret:write',
  'secret:update',
  'share:read',
  'share:write',
  'sync:read',
  'sync:write',
  'sync:transfer',
  'token:read',
  'token:create',
  'token:write',
  'token:transfer',
  'oidc:read',
  'oidc:write',
  'audit:read',
  'service:read',
  'service:write',
  'service:token',
  'policy:read',
  'policy:write',
  'access:read',
] as const satisfies readonly EndpointPermission[]
export type ExplainedAction = (typeof explainedActions)[number]

const ActorType = words('user', 'service', 'token', 'oidc')

/**
 * People are named by their address, tokens, service accounts and identities by their name. The id of a person is that of
 * their row in the list of members; a pending invite has one too.
 */
export const AccessActor = Type.Object({ type: ActorType, id: Id, name: Type.String() })
export type AccessActor = Static<typeof AccessActor>

export const ExplainQuery = Type.Object({
  /** The id of a member, a person, a token, a service account or an identity, or the address of a person. */
  actor: line(254),
  action: words(...explainedActions),
  /** Id or name, for actions on teams and new projects. */
  team: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  /** Slug or id. */
  project: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  /** Id, or name within the project. Without a project or an environment, the answer is about any of them. */
  environment: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  /** The address that the request comes from. If it is absent, rules about addresses are described, not applied. */
  ip: Type.Optional(Type.String({ minLength: 2, maxLength: 50 })),
})
export type ExplainQuery = Static<typeof ExplainQuery>

export const Explanation = Type.Object({
  allowed: Type.Boolean(),
  /** The status that such a request gets: 403 if the place is visible, 404 if it is not, 401 if the credential has ended. */
  status: Type.Integer(),
  actor: AccessActor,
  action: Type.String(),
  teamId: nullable(Id),
  projectId: nullable(Id),
  environmentId: nullable(Id),
  /** The grant that allows it. Null if none does, and for identities, which have none. */
  grant: Type.Union([Grant, Type.Null()]),
  /** What decided, in sentences: grants, token, scope, policy. The first gives the answer. */
  reasons: Type.Array(Type.String()),
})
export type Explanation = Static<typeof Explanation>

export const AccessRow = Type.Object({
  actor: AccessActor,
  /** For a token: whose rights limit it. */
  ownerName: nullable(Type.String()),
  isOwner: Type.Boolean(),
  /** For a token: whether it may manage members, invites, service accounts and identities. */
  mayAdminister: Type.Boolean(),
  /** Why this actor gets nothing at the moment, such as a policy; null if nothing stands in the way. */
  problem: nullable(Type.String()),
  /** Only environments that the actor can read. */
  environments: Type.Array(Type.Object({ projectId: Id, environmentId: Id, right: words('read', 'write', 'admin') })),
})
export type AccessRow = Static<typeof AccessRow>

export const AccessQuery = Type.Object({
  ...page,
  /** Slug or id: only actors and environments of this project. */
  project: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  type: Type.Optional(ActorType),
})
export type AccessQuery = Static<typeof AccessQuery>

const one = '/v1/workspace/:ws'

export const accessEndpoints = {
  explainAccess: {
    method: 'GET',
    path: `${one}/explain`,
    area: 'access',
    summary: 'Explain whether somebody may do something, and by which grant, token, scope and policy',
    permission: 'access:read',
    params: WorkspacePath,
    query: ExplainQuery,
    status: 200,
    response: Explanation,
    errors: [403, 404],
    withoutValues: true,
  },
  listAccess: {
    method: 'GET',
    path: `${one}/access`,
    area: 'access',
    summary: 'List people and machines with their right at each environment',
    permission: 'access:read',
    params: WorkspacePath,
    query: AccessQuery,
    status: 200,
    response: Type.Array(AccessRow),
    errors: [403, 404],
    withoutValues: true,
  },
} as const satisfies Record<string, Endpoint>
