import { type Endpoint, maxPublicBodyBytes } from './endpoint.ts'
import { closed, Id, line, MaybeTimestamp, ProjectPath, Slug, Success, Timestamp, words } from './field.ts'
import { type Static, Type } from './schema.ts'

/**
 * Maximum size of a share as JSON before it is sealed. The largest secret value fits, even if JSON escapes every byte
 * as six.
 */
export const maxShareBytes = 512 * 1024
/** An end-to-end ciphertext holds at least one padded block, plus nonce and tag. */
export const shareBlockBytes = 256
export const shareOverheadBytes = 12 + 16

const base64UrlLength = (byteCount: number) => Math.ceil((byteCount * 4) / 3)
const binary = (minBytes: number, maxBytes = minBytes) =>
  Type.String({
    description: 'base64url without padding',
    pattern: '^[A-Za-z0-9_-]+$',
    minLength: base64UrlLength(minBytes),
    maxLength: base64UrlLength(maxBytes),
  })

/** Sealed by the sender's browser or command line. The server never gets the key. */
export const ShareEnvelope = Type.Object(
  {
    ciphertext: binary(shareBlockBytes + shareOverheadBytes, maxShareBytes + shareOverheadBytes),
    commit: binary(32),
    linkProofHash: binary(32),
    passProofHash: Type.Optional(binary(32)),
  },
  closed,
)
export type ShareEnvelope = Static<typeof ShareEnvelope>

const Password = Type.String({ minLength: 1, maxLength: 256 })

/** Exactly one of `secrets`, `content` and `envelope`. */
export const NewShare = Type.Object(
  {
    secrets: Type.Optional(
      Type.Array(Type.Object({ id: Id, environmentId: Id }, closed), { minItems: 1, maxItems: 100 }),
    ),
    content: Type.Optional(Type.String({ minLength: 1, maxLength: maxShareBytes })),
    envelope: Type.Optional(ShareEnvelope),
    password: Type.Optional(Password),
    label: Type.Optional(line(100)),
    expiresIn: Type.Integer({ minimum: 300, maximum: 2_592_000, description: 'seconds' }),
    maxViews: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 1 })),
    maxFailures: Type.Optional(Type.Integer({ minimum: 3, maximum: 20, default: 10 })),
  },
  closed,
)
export type NewShare = Static<typeof NewShare>

/** The only response that ever contains the token. */
export const IssuedShare = Type.Object({
  id: Id,
  token: Type.String(),
  url: Type.String(),
  expiresAt: Timestamp,
  maxViews: Type.Integer(),
})
export type IssuedShare = Static<typeof IssuedShare>

const Kind = words('server', 'e2e')
export const shareStates = ['active', 'exhausted', 'expired', 'revoked', 'locked'] as const
export type ShareState = (typeof shareStates)[number]

export const Share = Type.Object({
  id: Id,
  label: Type.String(),
  kind: Kind,
  state: words(...shareStates),
  views: Type.Integer(),
  maxViews: Type.Integer(),
  failures: Type.Integer(),
  maxFailures: Type.Integer(),
  hasPassword: Type.Boolean(),
  createdById: Id,
  createdAt: Timestamp,
  expiresAt: Timestamp,
  lastViewedAt: MaybeTimestamp,
})
export type Share = Static<typeof Share>

export const shareOutcomes = ['success', 'repeated', 'failure'] as const
export type ShareOutcome = (typeof shareOutcomes)[number]

/** `repeated`: the same reader again, after a lost response. `failure`: a wrong password. */
export const ShareView = Type.Object({
  at: Timestamp,
  ip: Type.String(),
  userAgent: Type.String(),
  outcome: words(...shareOutcomes),
})
export type ShareView = Static<typeof ShareView>

export const SharePath = Type.Object({ ws: Slug, prj: Slug, id: Id })
export type SharePath = Static<typeof SharePath>
/** No pattern: a malformed token is answered like an unknown one. */
export const ShareTokenPath = Type.Object({ token: Type.String({ maxLength: 4_096 }) })
export type ShareTokenPath = Static<typeof ShareTokenPath>

export const ShareMeta = Type.Object({
  kind: Kind,
  expiresAt: Timestamp,
  viewsLeft: Type.Integer(),
  hasPassword: Type.Boolean(),
  sizeBytes: Type.Integer(),
})
export type ShareMeta = Static<typeof ShareMeta>

/** `password` opens a share sealed by the server; `linkProof` and `passProof` are for end-to-end shares. */
export const ShareKey = Type.Object(
  {
    password: Type.Optional(Password),
    linkProof: Type.Optional(binary(32)),
    passProof: Type.Optional(binary(32)),
    claim: Type.Optional(binary(16)),
  },
  closed,
)
export type ShareKey = Static<typeof ShareKey>

export const OpenedShare = Type.Object({
  content: Type.Optional(Type.String()),
  secrets: Type.Optional(Type.Array(Type.Object({ name: Type.String(), value: Type.String() }))),
  ciphertext: Type.Optional(Type.String()),
  commit: Type.Optional(Type.String()),
  viewsLeft: Type.Integer(),
})
export type OpenedShare = Static<typeof OpenedShare>

const list = '/v1/workspace/:ws/project/:prj/secret-share'
const area = 'secret-share'

export const shareEndpoints = {
  createShare: {
    method: 'POST',
    path: list,
    area,
    summary: 'Share secrets, a text or an encrypted envelope by a link; its token is shown only in this response',
    permission: 'share:write',
    params: ProjectPath,
    body: NewShare,
    status: 201,
    response: IssuedShare,
    errors: [403, 404, 409],
  },
  listShares: {
    method: 'GET',
    path: list,
    area,
    summary: 'List your shares (for an admin, everyone’s), newest first; ended ones stay listed for 90 days',
    permission: 'share:read',
    params: ProjectPath,
    status: 200,
    response: Type.Array(Share),
    errors: [403, 404],
  },
  revokeShare: {
    method: 'DELETE',
    path: `${list}/:id`,
    area,
    summary: 'Revoke a share; its contents are erased at once',
    permission: 'share:write',
    params: SharePath,
    status: 200,
    response: Success,
    errors: [403, 404],
  },
  listShareViews: {
    method: 'GET',
    path: `${list}/:id/view`,
    area,
    summary: 'List who opened a share or tried to, newest first',
    permission: 'share:read',
    params: SharePath,
    status: 200,
    response: Type.Array(ShareView),
    errors: [403, 404],
  },
  readShareMeta: {
    method: 'GET',
    path: '/v1/share/:token/meta',
    area,
    summary: 'Show what is needed to open a share; uses up no view',
    permission: 'public',
    looksUpToken: true,
    params: ShareTokenPath,
    status: 200,
    response: ShareMeta,
    errors: [404],
  },
  openShare: {
    method: 'POST',
    path: '/v1/share/:token/view',
    area,
    summary: 'Open a share; the only request that uses up a view',
    permission: 'public',
    looksUpToken: true,
    params: ShareTokenPath,
    body: ShareKey,
    maxBodyBytes: maxPublicBodyBytes,
    status: 200,
    response: OpenedShare,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
