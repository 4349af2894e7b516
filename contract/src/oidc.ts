import { AccessToken } from './auth.ts'
import { type Endpoint, maxPublicBodyBytes } from './endpoint.ts'
import {
  closed,
  Id,
  IdPath,
  line,
  MaybeTimestamp,
  Name,
  NewScope,
  nullable,
  Permission,
  Scope,
  Slug,
  Success,
  Timestamp,
  WorkspacePath,
} from './field.ts'
import { type Static, Type } from './schema.ts'

const Pattern = line(500)

/**
 * For each claim, the pattern that its value must match, or a list of patterns of which one must match. `*` matches any
 * text.
 */
export const ClaimRules = Type.Unsafe<Readonly<Record<string, string | readonly string[]>>>({
  type: 'object',
  maxProperties: 20,
  additionalProperties: { anyOf: [Pattern, Type.Array(Pattern, { minItems: 1, maxItems: 20 })] },
})
export type ClaimRules = Static<typeof ClaimRules>

export const Identity = Type.Object({
  id: Id,
  name: Type.String(),
  issuer: Type.String(),
  audience: Type.String(),
  subject: nullable(Type.String()),
  claims: ClaimRules,
  permission: Permission,
  scope: Scope,
  enabled: Type.Boolean(),
  createdAt: Timestamp,
  /** Null for an identity from before this was recorded. */
  createdById: nullable(Id),
  updatedAt: Timestamp,
  lastUsedAt: MaybeTimestamp,
})
export type Identity = Static<typeof Identity>

const fields = {
  name: Name,
  issuer: Type.String({ minLength: 8, maxLength: 500, pattern: '^https?://[^\\s\\u0000-\\u001f\\u007f?#]+$' }),
  audience: line(255),
  permission: Permission,
  scope: NewScope,
}

export const NewIdentity = Type.Object(
  {
    ...fields,
    subject: Type.Optional(nullable(Pattern)),
    claims: Type.Optional(ClaimRules),
    enabled: Type.Optional(Type.Boolean()),
  },
  closed,
)
export type NewIdentity = Static<typeof NewIdentity>

/** Omitted fields stay unchanged. A null subject or empty claims remove these rules. */
export const IdentityChange = Type.Object(
  {
    name: Type.Optional(fields.name),
    issuer: Type.Optional(fields.issuer),
    audience: Type.Optional(fields.audience),
    subject: Type.Optional(nullable(Pattern)),
    claims: Type.Optional(ClaimRules),
    permission: Type.Optional(fields.permission),
    scope: Type.Optional(fields.scope),
    enabled: Type.Optional(Type.Boolean()),
  },
  { ...closed, minProperties: 1 },
)
export type IdentityChange = Static<typeof IdentityChange>

/** A template; words in capitals are placeholders to replace. */
export const IdentityPreset = Type.Object({
  id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  issuer: Type.String(),
  audience: Type.String(),
  subject: nullable(Type.String()),
  claims: ClaimRules,
})
export type IdentityPreset = Static<typeof IdentityPreset>

const ExternalToken = Type.String({ minLength: 1, maxLength: 16_384 })

export const IdentityTest = Type.Object({ token: ExternalToken }, closed)
export type IdentityTest = Static<typeof IdentityTest>

export const IdentityCheck = Type.Object({
  check: Type.String(),
  ok: Type.Boolean(),
  expected: Type.String(),
  actual: Type.String(),
})
export type IdentityCheck = Static<typeof IdentityCheck>

export const IdentityVerdict = Type.Object({ ok: Type.Boolean(), checks: Type.Array(IdentityCheck) })
export type IdentityVerdict = Static<typeof IdentityVerdict>

export const IdentityExchange = Type.Object({ token: ExternalToken, workspaceId: Slug }, closed)
export type IdentityExchange = Static<typeof IdentityExchange>

const list = '/v1/workspace/:ws/oidc'

export const oidcEndpoints = {
  exchangeIdentity: {
    method: 'POST',
    path: '/v1/auth/oidc/exchange',
    area: 'auth',
    summary: 'Exchange a token of an issuer that the workspace trusts for a JWT that is valid for 15 minutes',
    permission: 'public',
    body: IdentityExchange,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: AccessToken,
    errors: [401, 403],
  },
  listIdentities: {
    method: 'GET',
    path: list,
    area: 'oidc',
    summary: 'List the OIDC identities of a workspace',
    permission: 'oidc:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(Identity),
    errors: [403, 404],
  },
  createIdentity: {
    method: 'POST',
    path: list,
    area: 'oidc',
    summary: 'Create an OIDC identity: trust tokens of an issuer that match these rules',
    permission: 'oidc:write',
    params: WorkspacePath,
    body: NewIdentity,
    status: 201,
    response: Identity,
    errors: [403, 404, 409],
  },
  listIdentityPresets: {
    method: 'GET',
    path: `${list}/preset`,
    area: 'oidc',
    summary: 'List templates for well-known issuers',
    permission: 'oidc:read',
    params: WorkspacePath,
    status: 200,
    response: Type.Array(IdentityPreset),
    errors: [403, 404],
  },
  readIdentity: {
    method: 'GET',
    path: `${list}/:id`,
    area: 'oidc',
    summary: 'Read one OIDC identity',
    permission: 'oidc:read',
    params: IdPath,
    status: 200,
    response: Identity,
    errors: [403, 404],
  },
  updateIdentity: {
    method: 'PUT',
    path: `${list}/:id`,
    area: 'oidc',
    summary: 'Change an OIDC identity; unless only its name changes, its JWTs are revoked at once',
    permission: 'oidc:write',
    params: IdPath,
    body: IdentityChange,
    status: 200,
    response: Type.Object({ ...Success.properties, ...Identity.properties }),
    errors: [403, 404],
  },
  deleteIdentity: {
    method: 'DELETE',
    path: `${list}/:id`,
    area: 'oidc',
    summary: 'Delete an OIDC identity; its JWTs are revoked at once',
    permission: 'oidc:write',
    params: IdPath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
  testIdentity: {
    method: 'POST',
    path: `${list}/:id/test`,
    area: 'oidc',
    summary: 'Test whether a token would be accepted, check by check; grants nothing',
    permission: 'oidc:read',
    params: IdPath,
    body: IdentityTest,
    status: 200,
    response: IdentityVerdict,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
