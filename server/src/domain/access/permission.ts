/** What each permission asks of role, credential and scope; access.ts decides by it. */
import type { EndpointPermission } from '@coffer/contract/endpoint'
import type { Role } from '@coffer/contract/field'

type Rule = {
  readonly role: Role
  readonly writes?: true
  /** Belongs to the workspace as a whole: needs scope `all`. */
  readonly whole?: true
  readonly owner?: true
  readonly session?: true
  /** Changes a project itself, not only what lies in one of its environments. */
  readonly wholeProject?: true
  /** Makes what is somebody's own and lives by their rights: nobody stands behind an identity. */
  readonly person?: true
}

/** What belongs to no workspace is settled by the credential alone. */
export type WorkspacePermission = Exclude<
  EndpointPermission,
  | 'public'
  | 'auth:exchange'
  | 'auth:logout'
  | 'device:approve'
  | 'me:read'
  | 'me:manage'
  | 'workspace:list'
  | 'workspace:create'
  | 'invite:answer'
  | 'secret:list'
  | 'sync:list'
>

export const rules: Record<WorkspacePermission, Rule> = {
  'workspace:read': { role: 'member' },
  'workspace:write': { role: 'admin', writes: true, whole: true },
  'workspace:delete': { role: 'admin', writes: true, whole: true, owner: true },
  'workspace:handover': { role: 'admin', writes: true, whole: true, owner: true, session: true },
  'member:read': { role: 'admin', whole: true },
  'member:write': { role: 'admin', writes: true, whole: true },
  'team:read': { role: 'member' },
  'team:create': { role: 'admin', writes: true, whole: true },
  'team:write': { role: 'admin', writes: true },
  'project:read': { role: 'member' },
  'project:create': { role: 'admin', writes: true },
  'project:write': { role: 'admin', writes: true, wholeProject: true },
  'environment:read': { role: 'member' },
  'environment:create': { role: 'admin', writes: true, wholeProject: true },
  'environment:write': { role: 'admin', writes: true },
  'secret:read': { role: 'member' },
  'secret:write': { role: 'developer', writes: true },
  // A member may change their own personal values; the shared ones ask for more where they are written.
  'secret:update': { role: 'member', writes: true },
  'share:read': { role: 'developer' },
  'share:write': { role: 'developer', writes: true, person: true },
  'sync:read': { role: 'admin' },
  'sync:write': { role: 'admin', writes: true, person: true },
  'token:read': { role: 'member' },
  'token:create': { role: 'member', writes: true, session: true },
  'token:write': { role: 'member', writes: true },
  'oidc:read': { role: 'admin', whole: true },
  'oidc:write': { role: 'admin', writes: true, whole: true },
  'audit:read': { role: 'admin', whole: true },
}

export const ranks: Record<Role, number> = { member: 0, developer: 1, admin: 2 }
