/** The pages that people see. Without a build of the dashboard, the service is the API alone. */
import { Failure } from '../../failure.ts'
import type { Exchange, Route } from '../exchange.ts'
import type { StaticFolder } from '../response/static-file.ts'
import { plainRoute } from '../route.ts'

const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "font-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const policies = {
  'content-security-policy': contentPolicy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

/** First words of paths that programs use: an error there must never be a page. */
const programPaths = ['v1', 'docs', 'openapi.json', 'healthz', 'readyz', 'metrics', 'logo', 'assets']

/** Pages with an html file of their own, by the first word of their path. */
const plainPages = ['login', 'share', 'invite', 'device', 'reset']

/** Answers every path that no other route has. */
export function dashboardRoute(files: StaticFolder): Route {
  async function answer(exchange: Exchange): Promise<Exchange> {
    const [path = ''] = exchange.url.split('?', 1)
    const name = path.slice(1)
    if (files.has(name) && !name.endsWith('.html')) {
      const isHashed = name.startsWith('assets/')
      const cacheControl = isHashed ? 'public, max-age=31536000, immutable' : 'public, max-age=3600'
      return files.send(exchange, name, { ...policies, 'cache-control': cacheControl })
    }
    const [word = ''] = name.split('/', 1)
    const page = plainPages.includes(word) ? `${word}.html` : 'index.html'
    const isPage = files.has(page) && acceptsHtml(exchange) && !programPaths.includes(word) && !path.startsWith('//')
    if (isPage) return files.send(exchange, page, { ...policies, 'cache-control': 'no-store' })
    if (path === '/') return exchange.status(302).header('location', '/docs').send()
    throw new Failure('notFound')
  }

  return plainRoute('/*', answer)
}

const acceptsHtml = ({ headers }: Exchange) => headers.accept?.includes('text/html') ?? false
