/** What one endpoint is, for the server that serves it and for the clients that call it. */
import type { TSchema } from './schema.ts'

/**
 * What a caller needs. `public` needs no credential; the other words are decided in the server's access room, from the
 * role, scope and permission behind the credential.
 */
export const permissions = [
  'public',
  'auth:exchange',
  'auth:logout',
  'device:approve',
  'me:read',
  'me:manage',
  'workspace:list',
  'workspace:create',
  'workspace:read',
  'workspace:write',
  'workspace:delete',
  'workspace:handover',
  'member:read',
  'member:write',
  'invite:answer',
  'team:read',
  'team:create',
  'team:write',
  'project:read',
  'project:create',
  'project:write',
  'environment:read',
  'environment:create',
  'environment:write',
  'secret:list',
  'secret:read',
  'secret:write',
  'secret:update',
  'share:read',
  'share:write',
  'sync:list',
  'sync:read',
  'sync:write',
  'token:read',
  'token:create',
  'token:write',
  'oidc:read',
  'oidc:write',
  'audit:read',
] as const
export type EndpointPermission = (typeof permissions)[number]

export type Endpoint = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly area: string
  readonly summary: string
  readonly permission: EndpointPermission
  readonly params?: TSchema
  readonly query?: TSchema
  readonly body?: TSchema
  readonly status: 200 | 201
  readonly response: TSchema
  /** Statuses beyond those that every endpoint may answer: 400, 408, 429, 431, 500, 503, and 401 unless it is public. */
  readonly errors: readonly (401 | 403 | 404 | 409 | 412)[]
  /** The body that a 400 may have instead of `{ message }`: device polling alone has one. */
  readonly refusal?: TSchema
  /** Set where a successful answer is a stream of another kind than JSON on demand. */
  readonly streams?: readonly ('application/x-ndjson' | 'application/yaml' | 'text/csv' | 'text/plain')[]
  /** Answers with an ETag, and with 304 to a matching If-None-Match. */
  readonly isCached?: true
  /** Takes If-Match, and answers 412 where the ETag in it is no longer that of the secret. */
  readonly isConditional?: true
  /** Where bodies are smaller than everywhere else. */
  readonly maxBodyBytes?: number
  /** The part of the body that answers a form: what is wrong in it starts with the id of the form's field. */
  readonly answersIn?: string
  /** A dry run creates nothing: it answers 200. */
  readonly dryRuns?: true
}

/** For whoever needs no credential: more than such a body ever holds, and parsed in no time. */
export const maxPublicBodyBytes = 64 * 1024

/** Every error status that the endpoint declares; the body of each is `{ message }`, but for `refusal`. */
export function errorStatuses(endpoint: Endpoint): number[] {
  const always = [400, 408, 429, 431, 500, 503]
  const withCredential = endpoint.permission === 'public' ? [] : [401]
  const withBody = endpoint.method === 'GET' ? [] : [413, 415]
  return [...always, ...withCredential, ...withBody, ...endpoint.errors].sort((a, b) => a - b)
}
