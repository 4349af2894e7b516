import { type Endpoint, maxPublicBodyBytes } from './endpoint.ts'
import {
  closed,
  Id,
  IdPath,
  line,
  NewEmail,
  NewGrants,
  NewScope,
  Role,
  Slug,
  Success,
  Timestamp,
  WorkspacePath,
  words,
} from './field.ts'
import { type Static, Type } from './schema.ts'

/** Either `role` and `scope`, or `grants`. */
export const NewInvite = Type.Object(
  {
    email: NewEmail,
    role: Type.Optional(Role),
    scope: Type.Optional(NewScope),
    grants: Type.Optional(NewGrants),
  },
  closed,
)
export type NewInvite = Static<typeof NewInvite>

/** The only response that ever contains the token. */
export const IssuedInvite = Type.Object({
  id: Id,
  inviteUrl: Type.String(),
  inviteToken: Type.String(),
  expiresAt: Timestamp,
  /** The response does not wait for the mail server; the list of members shows whether the mail was sent. */
  mail: words('off', 'sending'),
})
export type IssuedInvite = Static<typeof IssuedInvite>

export const InviteToken = Type.Object({ token: line(200) }, closed)
export type InviteToken = Static<typeof InviteToken>
/** A text of any form: one that can be no token is answered like an unknown one. */
export const InviteLookup = Type.Object({ token: Type.String({ maxLength: maxPublicBodyBytes }) }, closed)
export type InviteLookup = Static<typeof InviteLookup>
/** Nothing in it depends on whether the address has an account. */
export const FoundInvite = Type.Object({
  workspace: Type.Object({ name: Type.String(), slug: Slug }),
  email: Type.String(),
  role: Role,
  expiresAt: Timestamp,
})
export type FoundInvite = Static<typeof FoundInvite>
export const InviteAccepted = Type.Object({ slug: Slug })
export type InviteAccepted = Static<typeof InviteAccepted>

const list = '/v1/workspace/:ws/rbac'

export const inviteEndpoints = {
  createInvite: {
    method: 'POST',
    path: list,
    area: 'member',
    summary: 'Invite an email address; the link is shown only in this response, and mailed if mail is configured',
    permission: 'member:write',
    params: WorkspacePath,
    body: NewInvite,
    status: 201,
    response: IssuedInvite,
    errors: [403, 404, 409],
  },
  resendInvite: {
    method: 'POST',
    path: `${list}/:id/resend`,
    area: 'member',
    summary: 'Replace the link of an invite by one valid for 7 days; the old link stops working',
    permission: 'member:write',
    params: IdPath,
    status: 200,
    response: IssuedInvite,
    errors: [403, 404, 409],
  },
  lookUpInvite: {
    method: 'POST',
    path: '/v1/workspace/invite/lookup',
    area: 'member',
    summary: 'Show what an invite offers, to anybody who has its token',
    permission: 'public',
    looksUpToken: true,
    body: InviteLookup,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: FoundInvite,
    errors: [404],
  },
  acceptInvite: {
    method: 'POST',
    path: '/v1/workspace/invite/accept',
    area: 'member',
    summary: 'Accept an invite to a workspace that was sent to your address',
    permission: 'invite:answer',
    body: InviteToken,
    status: 200,
    response: InviteAccepted,
    errors: [403, 404, 409],
  },
  declineInvite: {
    method: 'POST',
    path: '/v1/workspace/invite/decline',
    area: 'member',
    summary: 'Decline an invite',
    permission: 'invite:answer',
    body: InviteToken,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
