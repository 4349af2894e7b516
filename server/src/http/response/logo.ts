/** Generated logos for the sync providers: up to three letters on a colour. */
import { Failure } from '../../failure.ts'
import type { Route } from '../exchange.ts'
import { plainRoute } from '../route.ts'

export const logoRoute: Route = plainRoute('/logo/:file', async (exchange) => {
  const { file } = exchange.params as { file: string }
  const slug = /^([a-z0-9-]{2,48})\.svg$/.exec(file)?.[1]
  const { drawLogo } = await import('../../domain/sync/logo.ts')
  const logo = slug === undefined ? undefined : await drawLogo(slug)
  if (logo === undefined) throw new Failure('notFound')
  return exchange
    .header('content-type', 'image/svg+xml')
    .header('cache-control', 'public, max-age=86400')
    .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
    .send(logo)
})
