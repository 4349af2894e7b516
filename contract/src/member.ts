import type { Endpoint } from './endpoint.ts'
import {
  closed,
  DryRunQuery,
  Grants,
  Id,
  IdPath,
  MaybeTimestamp,
  NewGrants,
  NewScope,
  Permission,
  Role,
  Scope,
  Success,
  Timestamp,
  WorkspacePath,
  words,
} from './field.ts'
import { type Static, Type } from './schema.ts'

/** A member of a workspace, or a person invited to it. An invite keeps its id when it becomes a membership. */
export const Member = Type.Object({
  id: Id,
  workspaceId: Id,
  /**
   * For an invite only the address is shown; id and name are empty, so that nobody learns whether an account exists.
   */
  user: Type.Object({
    id: Type.String(),
    email: Type.String(),
    /** True if the person has proved that they receive mail at the address. */
    emailVerified: Type.Boolean(),
    name: Type.String(),
  }),
  /** The first of the grants, for clients that know only one. */
  role: Role,
  status: words('invite-sent', 'account-created', 'declined', 'expired'),
  isOwner: Type.Boolean(),
  scope: Scope,
  grants: Grants,
  invitedAt: Timestamp,
  /** Only for invites: when the invite expires, and the delivery status of its newest mail. */
  expiresAt: Type.Optional(Timestamp),
  mail: Type.Optional(words('off', 'sending', 'sent', 'failed')),
})
export type Member = Static<typeof Member>

/** Either `grants`, or `role` and `scope`, which change a single grant; 409 if there are several. */
export const MemberChange = Type.Object(
  { role: Type.Optional(Role), scope: Type.Optional(NewScope), grants: Type.Optional(NewGrants) },
  { ...closed, minProperties: 1 },
)
export type MemberChange = Static<typeof MemberChange>

/** Things that a person made and that belong to the workspace: they stay unless somebody ends each by its own call. */
const Staying = Type.Object({
  serviceAccounts: Type.Array(Type.Object({ id: Id, name: Type.String(), tokens: Type.Integer() })),
  /** Tokens of service accounts: the person may know their values. */
  tokens: Type.Array(
    Type.Object({
      id: Id,
      name: Type.String(),
      serviceAccountId: Id,
      serviceAccountName: Type.String(),
      expiresAt: MaybeTimestamp,
      lastUsedAt: MaybeTimestamp,
    }),
  ),
  /** Also those from before makers were recorded, with `isMakerKnown` false. */
  identities: Type.Array(
    Type.Object({ id: Id, name: Type.String(), issuer: Type.String(), isMakerKnown: Type.Boolean() }),
  ),
  /** Syncs that were given to a service account. */
  syncs: Type.Array(Type.Object({ id: Id, name: Type.String(), projectId: Id })),
  /** Shares that were made with a token of a service account. */
  shares: Type.Array(Type.Object({ id: Id, label: Type.String(), projectId: Id, expiresAt: Timestamp })),
})

/** What ends with a member or a service account. Tokens and syncs can be transferred to a service account before. */
export const Removal = Type.Object({
  ...Success.properties,
  tokens: Type.Array(
    Type.Object({
      id: Id,
      name: Type.String(),
      permission: Permission,
      scope: Scope,
      /** Such a token cannot be transferred. */
      mayAdminister: Type.Boolean(),
      expiresAt: MaybeTimestamp,
      lastUsedAt: MaybeTimestamp,
    }),
  ),
  /** They keep their entries at the target, and push no more. */
  syncs: Type.Array(Type.Object({ id: Id, name: Type.String(), projectId: Id })),
  shares: Type.Integer(),
  /** Open invites that the person sent. */
  invites: Type.Array(Type.Object({ id: Id, email: Type.String(), expiresAt: Timestamp })),
  personalValues: Type.Integer(),
  stays: Staying,
})
export type Removal = Static<typeof Removal>

const list = '/v1/workspace/:ws/rbac'

export const memberEndpoints = {
  listMembers: {
    method: 'GET',
    path: list,
    area: 'member',
    summary: 'List the members and invites of a workspace',
    permission: 'member:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(Member),
    errors: [403, 404],
  },
  updateMember: {
    method: 'PUT',
    path: `${list}/:id`,
    area: 'member',
    summary: 'Change the grants of a member or an invite',
    permission: 'member:write',
    params: IdPath,
    body: MemberChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Member.properties }),
    errors: [403, 404, 409],
  },
  removeMember: {
    method: 'DELETE',
    path: `${list}/:id`,
    area: 'member',
    summary: 'Remove a member, including their tokens, open invites and personal values in the workspace, or an invite',
    permission: 'member:write',
    params: IdPath,
    query: DryRunQuery,
    status: 200,
    response: Removal,
    errors: [403, 404, 409],
  },
  resetMemberMfa: {
    method: 'DELETE',
    path: `${list}/:id/mfa`,
    area: 'member',
    summary: 'Remove the second factor of a member who has lost it and belongs to no other workspace',
    permission: 'member:write',
    params: IdPath,
    status: 200,
    response: Success,
    errors: [403, 404, 409],
  },
} as const satisfies Record<string, Endpoint>
