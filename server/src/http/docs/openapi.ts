/** The OpenAPI document, generated from the routes. */
import type { Endpoint } from '@coffer/contract/endpoint'
import type { FastifyInstance, FastifySchema } from 'fastify'
import type { Route } from '../pipeline.ts'
import { errorSchemas, operationId, partsOf, plainRoute } from '../route.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    endpoint?: Endpoint
  }
}

export function openapiRoute(routes: readonly Route[]): Route {
  let description: Promise<Buffer> | undefined
  return plainRoute('/openapi.json', async (exchange) => {
    description ??= describeApi(routes).catch((error) => {
      // Do not cache the failure: the next request tries again.
      description = undefined
      throw error
    })
    return exchange.header('content-type', 'application/json; charset=utf-8').send(await description)
  })
}

/**
 * Declares the same endpoints on a Fastify that never listens, because its plugin turns schemas into OpenAPI. Runs on
 * the first request: at start it would cost every process time, and memory for good.
 */
async function describeApi(routes: readonly Route[]): Promise<Buffer> {
  const [{ default: fastify }, { default: swagger }] = await Promise.all([
    import('fastify'),
    import('@fastify/swagger'),
  ])
  const app = fastify()
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Coffer',
        version: '1.0.0',
        description:
          'Secrets management: workspaces, teams, projects, environments and their secrets, members and invites, tokens, shares, syncs and the audit trail.',
      },
      components: {
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'API Key' } },
      },
    },
    transform: ({ schema, url, route }) => ({ schema: withEveryAnswer(schema, route.config?.endpoint), url }),
    transformObject: (document) => withOptionalBodies('openapiObject' in document ? document.openapiObject : {}),
  })
  for (const { endpoint } of routes) if (endpoint) declare(app, endpoint)
  await app.ready()
  // As a buffer, one copy serves all connections; a string would be encoded for each response.
  const description = Buffer.from(JSON.stringify(app.swagger()))
  await app.close()
  return description
}

const text = (description: string) => ({ type: 'string', description })
const etag = text('Changes whenever the answer does.')
const nextCursor = text('The `cursor` of the next page; absent on the last one.')

function askedHeaders({ isConditional, isCached }: Endpoint) {
  return {
    ...(isConditional && {
      'If-Match': text('ETags that reads of the secret have given, or `*`; none of them fits: 412.'),
    }),
    ...(isCached && { 'If-None-Match': text('The ETag of an answer that is at hand; it still fits: 304.') }),
  }
}

function answeredHeaders({ isCached, query }: Endpoint) {
  return {
    ...(isCached && { ETag: etag }),
    ...('cursor' in Object(Object(query).properties) && { 'X-Next-Cursor': nextCursor }),
  }
}

function declare(app: FastifyInstance, endpoint: Endpoint): void {
  const { method, path, area, summary, permission, status, streams, response } = endpoint
  const { params, query, body } = partsOf(endpoint)
  app.route({
    method,
    url: path,
    config: { endpoint },
    schema: {
      tags: [area],
      summary,
      operationId: operationId(endpoint),
      description: permission === 'public' ? 'Needs no credential.' : `Needs the permission \`${permission}\`.`,
      security: permission === 'public' ? [] : [{ bearer: [] }],
      ...(params && { params }),
      ...(query && { querystring: query }),
      ...(body && { body }),
      headers: { type: 'object', properties: askedHeaders(endpoint) },
      ...(streams && { produces: ['application/json', ...streams] }),
      response: { [status]: { ...response, headers: answeredHeaders(endpoint) } },
    },
    handler: async () => undefined,
  })
}

/** A body without required fields may be omitted. */
function withOptionalBodies(document: object): object {
  return JSON.parse(JSON.stringify(document), (key, value) => {
    if (key !== 'requestBody') return value
    const schema = value.content?.['application/json']?.schema
    return { ...value, required: schema?.required !== undefined || schema?.minProperties !== undefined }
  })
}

/** Adds the responses that the route does not serialise: errors, the result of a dry run, and 304. */
function withEveryAnswer(schema: FastifySchema, endpoint: Endpoint | undefined): FastifySchema {
  if (!endpoint) return schema
  const others = {
    ...(endpoint.dryRuns && { 200: { ...endpoint.response, description: 'What would be done.' } }),
    ...(endpoint.isCached && {
      304: { type: 'null', description: 'Unchanged since the ETag in If-None-Match.', headers: { ETag: etag } },
    }),
  }
  return { ...schema, response: { ...Object(schema.response), ...others, ...errorSchemas(endpoint) } }
}
