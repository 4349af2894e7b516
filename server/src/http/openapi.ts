/** The description of the API, made from the routes themselves. */
import type { Endpoint } from '@coffer/contract/endpoint'
import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import { docsRoutes } from './docs.ts'
import { errorSchemas } from './route.ts'

export async function openapiRoutes(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Coffer',
        version: '1.0.0',
        description: 'Secrets management: workspaces, teams, projects, environments, tokens and the audit trail.',
      },
      components: {
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'API Key' } },
      },
    },
    transform: ({ schema, url, route }) => ({ schema: withEveryAnswer(schema, route.config?.endpoint), url }),
    transformObject: (document) => withOptionalBodies('openapiObject' in document ? document.openapiObject : {}),
  })
  docsRoutes(app)
  let description: string | undefined
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    description ??= JSON.stringify(app.swagger())
    return reply.header('content-type', 'application/json; charset=utf-8').send(description)
  })
}

/** A body in which nothing is required may be left out. */
function withOptionalBodies(document: object): object {
  return JSON.parse(JSON.stringify(document), (key, value) => {
    if (key !== 'requestBody') return value
    const schema = value.content?.['application/json']?.schema
    return { ...value, required: schema?.required !== undefined || schema?.minProperties !== undefined }
  })
}

/** Beside the answer that the route serialises: errors, what a dry run answers, and that nothing has changed. */
function withEveryAnswer(schema: FastifySchema, endpoint: Endpoint | undefined): FastifySchema {
  if (!endpoint) return schema
  const others = {
    ...(endpoint.dryRuns && { 200: { ...endpoint.response, description: 'What would be done.' } }),
    ...(endpoint.isCached && { 304: { type: 'null', description: 'Unchanged since the ETag in If-None-Match.' } }),
  }
  return { ...schema, response: { ...Object(schema.response), ...others, ...errorSchemas(endpoint) } }
}
