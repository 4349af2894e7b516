/** Definition of an endpoint, for the server that serves it and the clients that call it. */
import type { TSchema } from './schema.ts'

/**
 * The permission that a caller needs. `public` needs no credential; the server's access module decides the others, from
 * the role, scope and permission behind the credential.
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
  'sync:transfer',
  'token:read',
  'token:create',
  'token:write',
  'token:transfer',
  'oidc:read',
  'oidc:write',
  'audit:read',
  'service:read',
  'service:write',
  'service:token',
  'policy:read',
  'policy:write',
  'access:read',
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
  /** Error statuses beyond those of every endpoint: 400, 408, 429, 431, 500, 503, and 401 and 403 unless it is public. */
  readonly errors: readonly (401 | 403 | 404 | 409 | 412)[]
  /** Body that a 400 may have instead of `{ message }`. Only device polling has one. */
  readonly refusal?: TSchema
  /** Content types other than JSON that the caller may request. */
  readonly streams?: readonly ('application/x-ndjson' | 'application/yaml' | 'text/csv' | 'text/plain')[]
  /** A search that may end before its time: the header X-Searched-To says how far it has looked. */
  readonly isSearch?: true
  /** Responds with an ETag, and with 304 to a matching If-None-Match. */
  readonly isCached?: true
  /** Accepts If-Match, and responds with 412 if the ETag no longer matches the secret. */
  readonly isConditional?: true
  /**
   * The response never holds a value of a secret, or not with these values of the query's `view`. Only such a response
   * is compressed: the length of a compressed one reveals parts of a secret to somebody who can add text to it (BREACH).
   */
  readonly withoutValues?: true | readonly ('keys' | 'cells')[]
  /** Finds a record by a token that the caller may have guessed: has a rate limit of its own beside the general one. */
  readonly looksUpToken?: true
  /** Set if the limit is lower than the general one. */
  readonly maxBodyBytes?: number
  /**
   * The field of the body that holds the answers to a form. Errors inside it start with the id of the form's field,
   * without this prefix.
   */
  readonly answersIn?: string
  /** A dry run creates nothing, and responds with 200. */
  readonly dryRuns?: true
}

/** Body limit of endpoints without a credential: more than such a body needs, and small enough to parse quickly. */
export const maxPublicBodyBytes = 64 * 1024

/**
 * Every error status of the endpoint. The body of each is `{ message }`, except for `refusal`. The policy of a workspace
 * can refuse any request with a credential: hence 403.
 */
export function errorStatuses(endpoint: Endpoint): number[] {
  const always = [400, 408, 429, 431, 500, 503]
  const withCredential = endpoint.permission === 'public' ? [] : [401, 403]
  const withBody = endpoint.method === 'GET' ? [] : [413, 415]
  const all = new Set([...always, ...withCredential, ...withBody, ...endpoint.errors])
  return [...all].sort((a, b) => a - b)
}
