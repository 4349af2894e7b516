/** The description of the API, made from the routes themselves, and its rendered form, which needs no other server. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'

/** Nothing but this service; the default lets styles, fonts and images come from elsewhere, and forces https. */
const contentPolicy = {
  'default-src': ["'self'"],
  'base-uri': ["'self'"],
  'form-action': ["'self'"],
  'frame-ancestors': ["'self'"],
  'img-src': ["'self'", 'data:'],
  'object-src': ["'none'"],
  'script-src-attr': ["'none'"],
}

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
    transformObject: (document) => withOptionalBodies('openapiObject' in document ? document.openapiObject : {}),
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: contentPolicy,
    // The default badge asks a server on the internet.
    uiConfig: { validatorUrl: null, docExpansion: 'list', deepLinking: true },
  })
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
