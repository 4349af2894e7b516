/** How an endpoint of the contract becomes a route: its schemas, its permission, one domain call. */
import { type Endpoint, errorStatuses } from '@coffer/contract/endpoint'
import { ErrorBody, Nothing } from '@coffer/contract/field'
import { type Static, type TSchema, Type } from '@coffer/contract/schema'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from '../domain/context.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    endpoint?: Endpoint
  }
  interface FastifyRequest {
    ctx: Context
    startedAt: number
    route: (FastifyContextConfig & { readonly url?: string }) | undefined
  }
}

type Part<E extends Endpoint, Key extends 'params' | 'query' | 'body'> = E[Key] extends TSchema
  ? Static<E[Key]>
  : unknown
type Asked<E extends Endpoint> = {
  readonly ctx: Context
  readonly params: Part<E, 'params'>
  readonly query: Part<E, 'query'>
  readonly body: Part<E, 'body'>
}
export type Serve = <const E extends Endpoint>(
  endpoint: E,
  handler: (asked: Asked<E>, reply: FastifyReply) => Promise<Static<E['response']> | FastifyReply>,
) => void
export type Routes = (serve: Serve) => void

export function serveOn(app: FastifyInstance): Serve {
  return (endpoint, handler) => {
    const { method, path, area, summary, permission, status, streams, maxBodyBytes } = endpoint
    const takesBody = method !== 'GET'
    app.route({
      method,
      url: path,
      config: { endpoint },
      ...(maxBodyBytes !== undefined && { bodyLimit: maxBodyBytes }),
      schema: {
        tags: [area],
        summary,
        operationId: operationId(endpoint),
        description: permission === 'public' ? 'Needs no credential.' : `Needs the permission \`${permission}\`.`,
        security: permission === 'public' ? [] : [{ bearer: [] }],
        ...(endpoint.params && { params: endpoint.params }),
        ...(endpoint.query && { querystring: endpoint.query }),
        ...(takesBody && { body: endpoint.body ?? Nothing }),
        ...(streams && { produces: ['application/json', ...streams] }),
        // Errors are one shape and one place writes them: only the description of the API needs their schemas.
        response: { [status]: endpoint.response },
      },
      ...(takesBody && { preValidation: assumeEmptyBody }),
      handler: (request: FastifyRequest, reply: FastifyReply) => {
        if (status !== 200) reply.status(status)
        // Validated by the very schemas that these types are made from.
        const asked = { ctx: request.ctx, params: request.params, query: request.query, body: request.body }
        return handler(asked as Asked<typeof endpoint>, reply)
      },
    })
  }
}

/** No body and an empty one mean the same as `{}`: what is missing in it is then named. */
function assumeEmptyBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (request.body === undefined) request.body = {}
  done()
}

/** For what answers nothing but that it was done. */
export async function succeed(work: Promise<void>): Promise<{ success: boolean }> {
  await work
  return { success: true }
}

/** The errors that an endpoint declares, as schemas for the description of the API. */
export function errorSchemas(endpoint: Endpoint): Record<number, TSchema> {
  return Object.fromEntries(errorStatuses(endpoint).map((code) => [code, errorOf(code, endpoint)]))
}

const errorTexts: Record<number, string> = {
  400: 'The request is not valid; the message starts with the field’s name.',
  401: 'The credential is missing, malformed, unknown, expired or revoked.',
  403: 'Visible to you, but not allowed.',
  404: 'Absent, or outside your scope.',
  409: 'Conflicts with what is there.',
  412: 'It has changed since it was read.',
  413: 'The body is larger than this endpoint takes; most take 8 MiB.',
  415: 'The body is not JSON.',
  429: 'Rate limit exceeded; Retry-After says how long to wait.',
  500: 'Something went wrong on our side.',
  503: 'The service cannot reach its storage, or is stopping; Retry-After says how long to wait.',
}

function errorOf(code: number, { refusal }: Endpoint): TSchema {
  const description = errorTexts[code] ?? ''
  if (code === 400 && refusal) return { anyOf: [ErrorBody, refusal], description }
  return Type.Object(ErrorBody.properties, { ...ErrorBody, description })
}

function operationId({ method, path }: Endpoint): string {
  const parts = path.split('/').filter((part) => part && part !== 'v1')
  const words = parts.map((part) => part.replace(/^:/, 'by-')).join('-')
  return `${method.toLowerCase()}-${words}`
}
