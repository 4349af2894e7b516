/** The description of the API, made from the routes themselves. */
import type { Endpoint } from '@coffer/contract/endpoint'
import fastify, { type FastifyInstance, type FastifySchema } from 'fastify'
import { docsRoutes } from './docs.ts'
import { errorSchemas, type Serve, serveOn } from './route.ts'

export function openapiRoutes(app: FastifyInstance, declare: (serve: Serve) => void): void {
  docsRoutes(app)
  let description: Promise<string> | undefined
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    description ??= describeApi(declare)
    return reply.header('content-type', 'application/json; charset=utf-8').send(await description)
  })
}

/**
 * The same routes once more, on a server that never listens, when somebody asks for the first time: what describes them
 * would cost every process time at its start, and 5 MB for good.
 */
async function describeApi(declare: (serve: Serve) => void): Promise<string> {
  const { default: swagger } = await import('@fastify/swagger')
  const app = fastify()
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
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
  declare(serveOn(app))
  await app.ready()
  const description = JSON.stringify(app.swagger())
  await app.close()
  return description
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
