import type { Endpoint } from './endpoint.ts'
import {
  Confirmation,
  closed,
  confirmation,
  Grants,
  Id,
  Name,
  Role,
  Scope,
  Slug,
  Success,
  Timestamp,
  WorkspacePath,
} from './field.ts'
import { type Static, Type } from './schema.ts'

export const Workspace = Type.Object({
  id: Id,
  name: Type.String(),
  slug: Slug,
  role: Role,
  isOwner: Type.Boolean(),
  scope: Scope,
  grants: Grants,
  createdAt: Timestamp,
})
export type Workspace = Static<typeof Workspace>

export const NewWorkspace = Type.Object({ name: Name, slug: Slug }, closed)
export type NewWorkspace = Static<typeof NewWorkspace>
export const WorkspaceChange = Type.Object(
  { name: Type.Optional(Name), slug: Type.Optional(Slug) },
  { ...closed, minProperties: 1 },
)
export type WorkspaceChange = Static<typeof WorkspaceChange>
export const Handover = Type.Object({ memberId: Id, ...confirmation }, closed)
export type Handover = Static<typeof Handover>

/** Path segments that could be mistaken for a slug: no workspace or project may have one of them as its slug. */
export const reservedSlugs: ReadonlySet<string> = new Set([
  'access',
  'audit',
  'batch',
  'cli',
  'diff',
  'environment',
  'event',
  'explain',
  'export',
  'import',
  'invite',
  'oidc',
  'owner',
  'policy',
  'preset',
  'project',
  'rbac',
  'secret',
  'secret-share',
  'secrets',
  'service-account',
  'share',
  'sync',
  'team',
  'tokens',
  'trash',
  'webhook',
  'workspace',
])

/** First words of the service's own paths: they would hide the pages of a workspace with such a slug. */
export const reservedWorkspaceSlugs: ReadonlySet<string> = new Set([
  ...reservedSlugs,
  'assets',
  'device',
  'docs',
  'healthz',
  'login',
  'logo',
  'me',
  'metrics',
  'readyz',
  'reset',
  'setup',
  'v1',
])

const one = '/v1/workspace/:ws'

export const workspaceEndpoints = {
  listWorkspaces: {
    method: 'GET',
    path: '/v1/workspace',
    area: 'workspace',
    summary: 'List the workspaces that the credential can access',
    permission: 'workspace:list',
    status: 200,
    response: Type.Array(Workspace),
    errors: [],
  },
  createWorkspace: {
    method: 'POST',
    path: '/v1/workspace',
    area: 'workspace',
    summary: 'Create a workspace; you become its admin and owner',
    permission: 'workspace:create',
    body: NewWorkspace,
    status: 201,
    response: Workspace,
    errors: [403, 409],
  },
  readWorkspace: {
    method: 'GET',
    path: one,
    area: 'workspace',
    summary: 'Read one workspace',
    permission: 'workspace:read',
    params: WorkspacePath,
    status: 200,
    response: Workspace,
    errors: [404],
  },
  updateWorkspace: {
    method: 'PUT',
    path: one,
    area: 'workspace',
    summary: 'Rename a workspace or change its slug',
    permission: 'workspace:write',
    params: WorkspacePath,
    body: WorkspaceChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Workspace.properties }),
    errors: [403, 404, 409],
  },
  deleteWorkspace: {
    method: 'DELETE',
    path: one,
    area: 'workspace',
    summary: 'Delete a workspace and everything in it, with your password or a code',
    permission: 'workspace:delete',
    params: WorkspacePath,
    body: Confirmation,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
  handOverWorkspace: {
    method: 'POST',
    path: `${one}/owner`,
    area: 'workspace',
    summary: 'Transfer ownership to another member, with your password or a code',
    permission: 'workspace:handover',
    params: WorkspacePath,
    body: Handover,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
