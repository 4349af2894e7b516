import type { Endpoint } from './endpoint.ts'
import { closed, Id, Success, WorkspacePath, words } from './field.ts'
import { type Static, Type } from './schema.ts'
import { AddressList } from './token.ts'

/** The longest life of a share, in days. */
const maxShareDays = 30

const rules = {
  /** People need a second factor, also for what their tokens do. Machines have none. */
  requireMfa: Type.Boolean(),
  /** The addresses that requests may come from. Absent: all. */
  allowedIps: Type.Optional(AddressList),
  /** The longest life of a token, counted from its creation. Absent: no limit. */
  maxTokenDays: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_650 })),
  requireVerifiedEmail: Type.Boolean(),
  sharing: Type.Object(
    {
      enabled: Type.Boolean(),
      maxDays: Type.Integer({ minimum: 1, maximum: maxShareDays }),
      endToEndOnly: Type.Boolean(),
    },
    closed,
  ),
}

export const Policy = Type.Object(rules)
export type Policy = Static<typeof Policy>

/** Replaces the whole policy. */
export const PolicyChange = Type.Object({ ...rules, dryRun: Type.Optional(Type.Boolean()) }, closed)
export type PolicyChange = Static<typeof PolicyChange>

/** Somebody who does not meet a policy, and why, in one sentence. */
export const ShutOut = Type.Object({
  type: words('user', 'service', 'token', 'oidc'),
  id: Id,
  name: Type.String(),
  reason: Type.String(),
})
export type ShutOut = Static<typeof ShutOut>

export const ChangedPolicy = Type.Object({
  ...Success.properties,
  ...Policy.properties,
  shutOut: Type.Array(ShutOut),
})
export type ChangedPolicy = Static<typeof ChangedPolicy>

/** The policy of a workspace that has set none. */
export const openPolicy: Policy = {
  requireMfa: false,
  requireVerifiedEmail: false,
  sharing: { enabled: true, maxDays: maxShareDays, endToEndOnly: false },
}

const path = '/v1/workspace/:ws/policy'

export const policyEndpoints = {
  readPolicy: {
    method: 'GET',
    path,
    area: 'workspace',
    summary: 'Read the policy of a workspace',
    permission: 'policy:read',
    params: WorkspacePath,
    status: 200,
    response: Policy,
    errors: [403, 404],
  },
  updatePolicy: {
    method: 'PUT',
    path,
    area: 'workspace',
    summary: 'Set the policy of a workspace; the response names everyone who does not meet it',
    permission: 'policy:write',
    params: WorkspacePath,
    body: PolicyChange,
    status: 200,
    response: ChangedPolicy,
    errors: [403, 404, 409],
  },
} as const satisfies Record<string, Endpoint>
