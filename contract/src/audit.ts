import type { Endpoint } from './endpoint.ts'
import { Id, nullable, page, Timestamp, WorkspacePath, words } from './field.ts'
import { type Static, Type } from './schema.ts'

export const auditActions = [
  'CREATE',
  'UPDATE',
  'DELETE',
  'VIEW',
  'COMPARE',
  'LOGIN',
  'LOGOUT',
  'EXCHANGE',
  'ROTATE',
  'PUSH',
  'ACCEPT',
  'DECLINE',
] as const
export type AuditAction = (typeof auditActions)[number]

const Metadata = Type.Record(Type.String(), Type.Unknown())

export const AuditEntry = Type.Object({
  id: Id,
  sequence: Type.Integer(),
  at: Timestamp,
  actor: Type.Object({ type: Type.String(), id: Type.String(), name: Type.String() }),
  action: Type.String(),
  entity: Type.Object({ type: Type.String(), id: Type.String(), name: Type.String() }),
  projectId: nullable(Id),
  environmentId: nullable(Id),
  ip: Type.String(),
  userAgent: Type.String(),
  requestId: Type.String(),
  outcome: words('success', 'failure'),
  before: Type.Optional(Metadata),
  after: Type.Optional(Metadata),
  /** Whether the address of the person, or of a token's creator, was confirmed then. Absent for other actors. */
  details: Type.Optional(Type.Object({ actorVerified: Type.Boolean() })),
  hash: Type.String(),
})
export type AuditEntry = Static<typeof AuditEntry>

const filter = Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\u0000-\\u001f\\u007f]+$' })
const Moment = Type.String({ format: 'date-time', maxLength: 40 })
export const AuditQuery = Type.Object({
  ...page,
  actor: Type.Optional(filter),
  action: Type.Optional(filter),
  entity: Type.Optional(filter),
  project: Type.Optional(filter),
  environment: Type.Optional(filter),
  from: Type.Optional(Moment),
  to: Type.Optional(Moment),
  q: Type.Optional(filter),
  format: Type.Optional(words('json', 'ndjson')),
})
export type AuditQuery = Static<typeof AuditQuery>

export const AuditVerdict = Type.Object({
  ok: Type.Boolean(),
  entries: Type.Integer(),
  head: Type.String(),
  firstBroken: Type.Optional(Type.Integer()),
  reason: Type.Optional(Type.String()),
})
export type AuditVerdict = Static<typeof AuditVerdict>

const list = '/v1/workspace/:ws/audit'

export const auditEndpoints = {
  listAudit: {
    method: 'GET',
    path: list,
    area: 'audit',
    summary: 'List the audit log, newest first; ndjson streams all of it, oldest first',
    permission: 'audit:read',
    params: WorkspacePath,
    query: AuditQuery,
    status: 200,
    response: Type.Array(AuditEntry),
    errors: [403, 404],
    withoutValues: true,
    isSearch: true,
    streams: ['application/x-ndjson'],
  },
  verifyAudit: {
    method: 'GET',
    path: `${list}/verify`,
    area: 'audit',
    summary: 'Verify the hash chain and the signature of its head',
    permission: 'audit:read',
    params: WorkspacePath,
    status: 200,
    response: AuditVerdict,
    errors: [403, 404],
  },
} as const satisfies Record<string, Endpoint>
