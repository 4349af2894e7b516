/** The role, credential and scope that each permission requires. access.ts enforces these rules. */
import type { EndpointPermission } from '@coffer/contract/endpoint'
import type { Role } from '@coffer/contract/field'

type Rule = {
  readonly role: Role
  readonly writes?: true
  /** Concerns the whole workspace: needs the scope `all`. */
  readonly whole?: true
  readonly owner?: true
  readonly session?: true
  /** Decides who else has access, or what outlives its creator: a person's session, or a token that was created for it. */
  readonly administers?: true
  /** Changes the project itself, not only the contents of one environment. */
  readonly wholeProject?: true
  /** Creates something that depends on its creator's rights, so an identity, which belongs to no person, may not. */
  readonly person?: true
}

/** The excluded permissions concern no particular workspace: the credential alone decides them. */
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
  'workspace:delete': { role: 'admin', writes: true, whole: true, owner: true, session: true },
  'workspace:handover': { role: 'admin', writes: true, whole: true, owner: true, session: true },
  'member:read': { role: 'admin', whole: true },
  'member:write': { role: 'admin', writes: true, whole: true, administers: true },
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
  // Members may change their own personal values; the write itself requires a higher role for shared ones.
  'secret:update': { role: 'member', writes: true },
  'share:read': { role: 'developer' },
  'share:write': { role: 'developer', writes: true, person: true },
  'sync:read': { role: 'admin' },
  'sync:write': { role: 'admin', writes: true, person: true },
  'sync:transfer': { role: 'admin', writes: true, whole: true, person: true },
  'token:read': { role: 'member' },
  'token:create': { role: 'member', writes: true, session: true },
  'token:write': { role: 'member', writes: true },
  'token:transfer': { role: 'admin', writes: true, whole: true, session: true },
  'oidc:read': { role: 'admin', whole: true },
  'oidc:write': { role: 'admin', writes: true, whole: true, administers: true },
  'audit:read': { role: 'admin', whole: true },
  'service:read': { role: 'admin', whole: true },
  'service:write': { role: 'admin', writes: true, whole: true, administers: true },
  'service:token': { role: 'admin', writes: true, whole: true, session: true },
  'policy:read': { role: 'admin', whole: true, owner: true },
  'policy:write': { role: 'admin', writes: true, whole: true, owner: true, session: true },
  'access:read': { role: 'admin', whole: true },
}
