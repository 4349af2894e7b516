import type { Endpoint } from './endpoint.ts'
import {
  closed,
  DryRunQuery,
  Grants,
  Id,
  IdPath,
  MaybeTimestamp,
  Name,
  NewGrants,
  Role,
  Scope,
  Success,
  Timestamp,
  WorkspacePath,
} from './field.ts'
import { Removal } from './member.ts'
import { type Static, Type } from './schema.ts'
import { IssuedToken, NewToken } from './token.ts'

/** A machine with grants and tokens of its own, which do not end with the person who created them. It cannot sign in. */
export const ServiceAccount = Type.Object({
  id: Id,
  name: Type.String(),
  role: Role,
  scope: Scope,
  grants: Grants,
  createdAt: Timestamp,
  /** The admin who created the account. */
  createdById: Id,
  /** Number of tokens that are neither revoked nor expired. */
  tokens: Type.Integer(),
  /** When the first of these tokens expires; null if none does. */
  nextExpiryAt: MaybeTimestamp,
  lastUsedAt: MaybeTimestamp,
})
export type ServiceAccount = Static<typeof ServiceAccount>

export const NewServiceAccount = Type.Object({ name: Name, grants: NewGrants }, closed)
export type NewServiceAccount = Static<typeof NewServiceAccount>
export const ServiceAccountChange = Type.Object(
  { name: Type.Optional(Name), grants: Type.Optional(NewGrants) },
  { ...closed, minProperties: 1 },
)
export type ServiceAccountChange = Static<typeof ServiceAccountChange>

/** Limit per workspace. */
export const maxServiceAccounts = 500

const list = '/v1/workspace/:ws/service-account'

export const serviceAccountEndpoints = {
  listServiceAccounts: {
    method: 'GET',
    path: list,
    area: 'service',
    summary: 'List the service accounts of a workspace',
    permission: 'service:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(ServiceAccount),
    errors: [403, 404],
  },
  createServiceAccount: {
    method: 'POST',
    path: list,
    area: 'service',
    summary: 'Create a service account',
    permission: 'service:write',
    params: WorkspacePath,
    body: NewServiceAccount,
    status: 201,
    response: ServiceAccount,
    errors: [403, 404, 409],
  },
  updateServiceAccount: {
    method: 'PUT',
    path: `${list}/:id`,
    area: 'service',
    summary: 'Change the name or the grants of a service account',
    permission: 'service:write',
    params: IdPath,
    body: ServiceAccountChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...ServiceAccount.properties }),
    errors: [403, 404, 409],
  },
  removeServiceAccount: {
    method: 'DELETE',
    path: `${list}/:id`,
    area: 'service',
    summary: 'Remove a service account and its tokens',
    permission: 'service:write',
    params: IdPath,
    query: DryRunQuery,
    status: 200,
    response: Removal,
    errors: [403, 404],
  },
  createServiceToken: {
    method: 'POST',
    path: `${list}/:id/tokens`,
    area: 'service',
    summary: 'Create an API token of a service account; it is shown only in this response',
    permission: 'service:token',
    params: IdPath,
    body: NewToken,
    status: 201,
    response: IssuedToken,
    errors: [403, 404, 409],
  },
} as const satisfies Record<string, Endpoint>
