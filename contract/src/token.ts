import type { Endpoint } from './endpoint.ts'
import {
  closed,
  confirmation,
  Id,
  IdPath,
  MaybeTimestamp,
  Name,
  NewScope,
  nullable,
  Permission,
  page,
  Scope,
  Slug,
  Success,
  Timestamp,
  Transfer,
  WorkspacePath,
  words,
} from './field.ts'
import { type Static, Type } from './schema.ts'
import { EnvironmentKey } from './secret.ts'

export const Token = Type.Object({
  id: Id,
  name: Type.String(),
  prefix: Type.String(),
  permission: Permission,
  scope: Scope,
  type: words('static', 'cli'),
  isOwner: Type.Boolean(),
  createdById: Id,
  /** Whose rights limit the token: those of a person, who is its creator, or of a service account. */
  ownerType: words('user', 'service'),
  ownerId: Id,
  ownerName: Type.String(),
  createdAt: Timestamp,
  expiresAt: MaybeTimestamp,
  lastUsedAt: MaybeTimestamp,
  lastUsedIp: nullable(Type.String()),
  revokedAt: MaybeTimestamp,
  mayAdminister: Type.Boolean(),
  allowedIps: Type.Array(Type.String()),
})
export type Token = Static<typeof Token>

/** Single addresses and CIDR ranges. */
export const AddressList = Type.Array(Type.String({ minLength: 2, maxLength: 50, pattern: '^[0-9a-fA-F.:/]+$' }), {
  maxItems: 100,
})

export const tokenLifetimes = ['24h', '5d', '30d', '60d', '3m', '6m', '1y', 'never'] as const

/** The longest life of a token that may administer. */
export const longestAdministeringLifetime = '3m'

export const NewToken = Type.Object(
  {
    name: Name,
    permission: Permission,
    scope: NewScope,
    expiresIn: words(...tokenLifetimes),
    allowedIps: Type.Optional(AddressList),
    /**
     * Lets the token manage members, invites, service accounts and identities, if its owner is an admin of the whole
     * workspace. Needs the password or a code here. Only tokens of people have it.
     */
    mayAdminister: Type.Optional(Type.Boolean()),
    ...confirmation,
  },
  closed,
)
export type NewToken = Static<typeof NewToken>

/** The only response that ever contains the token. */
export const IssuedToken = Type.Object({
  id: Id,
  token: Type.String(),
  name: Type.String(),
  prefix: Type.String(),
  permission: Permission,
  scope: Scope,
  mayAdminister: Type.Boolean(),
  expiresAt: MaybeTimestamp,
})
export type IssuedToken = Static<typeof IssuedToken>

export const TokenRotation = Type.Object(
  {
    graceSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400 })),
    /** Needed for a token that may administer. */
    ...confirmation,
  },
  closed,
)
export type TokenRotation = Static<typeof TokenRotation>
/** The name of an environment is unique within a project: `project` says in which, if the caller reaches several of that name. */
export const NewCliToken = Type.Object({ environmentId: EnvironmentKey, project: Type.Optional(Slug) }, closed)
export type NewCliToken = Static<typeof NewCliToken>

export const TokenListQuery = Type.Object(page)
export type TokenListQuery = Static<typeof TokenListQuery>

/** Limit per person and workspace. Ended tokens are removed to make room for new ones. */
export const maxTokens = 1_000

const list = '/v1/workspace/:ws/tokens'

export const tokenEndpoints = {
  listTokens: {
    method: 'GET',
    path: list,
    area: 'tokens',
    summary: 'List your API tokens (for an admin, everyone’s), newest first',
    permission: 'token:read',
    params: WorkspacePath,
    query: TokenListQuery,
    status: 200,
    response: Type.Array(Token),
    errors: [404],
  },
  createToken: {
    method: 'POST',
    path: list,
    area: 'tokens',
    summary: 'Create an API token; it is shown only in this response',
    permission: 'token:create',
    params: WorkspacePath,
    body: NewToken,
    status: 201,
    response: IssuedToken,
    errors: [403, 404, 409],
  },
  createCliToken: {
    method: 'POST',
    path: `${list}/cli`,
    area: 'tokens',
    summary: 'Create a read-only token for one environment, valid for 8 hours',
    permission: 'token:create',
    params: WorkspacePath,
    body: NewCliToken,
    status: 201,
    response: Type.Object({ token: Type.String(), expiresAt: Timestamp }),
    errors: [403, 404, 409],
  },
  rotateToken: {
    method: 'POST',
    path: `${list}/:id/rotate`,
    area: 'tokens',
    summary: 'Rotate a token; the old value stops working at once or after a grace period',
    permission: 'token:write',
    params: IdPath,
    body: TokenRotation,
    status: 200,
    response: IssuedToken,
    errors: [403, 404, 409],
  },
  transferToken: {
    method: 'POST',
    path: `${list}/:id/transfer`,
    area: 'tokens',
    summary: 'Give a token to a service account whose grants include all that the token may do; its value stays',
    permission: 'token:transfer',
    params: IdPath,
    body: Transfer,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Token.properties }),
    errors: [403, 404, 409],
  },
  revokeToken: {
    method: 'DELETE',
    path: `${list}/:id`,
    area: 'tokens',
    summary: 'Revoke a token',
    permission: 'token:write',
    params: IdPath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
