/** Small pictures of our own for the providers: up to three letters on a colour. */
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failure.ts'

export function logoRoute(app: FastifyInstance): void {
  app.get<{ Params: { file: string } }>('/logo/:file', { schema: { hide: true } }, async (request, reply) => {
    const slug = /^([a-z0-9-]{2,48})\.svg$/.exec(request.params.file)?.[1]
    const { drawLogo } = await import('../domain/sync-logo.ts')
    const logo = slug === undefined ? undefined : await drawLogo(slug)
    if (logo === undefined) throw new Failure('notFound')
    reply.header('content-type', 'image/svg+xml').header('cache-control', 'public, max-age=86400')
    reply.header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
    return logo
  })
}
