/**
 * The rendered API reference: the files of Swagger UI, read on request. The page loads nothing from other servers. An
 * override in package.json replaces the package that reports each installation of Swagger UI to its vendor.
 */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Failure } from '../../failure.ts'
import type { Exchange, Route } from '../exchange.ts'
import { plainRoute } from '../route.ts'

const assets: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'index.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui-standalone-preset.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
}

const contentPolicy = [
  "default-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "script-src-attr 'none'",
].join('; ')

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Coffer API</title>
<link rel="stylesheet" href="/docs/static/swagger-ui.css">
<link rel="stylesheet" href="/docs/static/index.css">
<link rel="icon" type="image/png" href="/docs/static/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/static/swagger-ui-bundle.js"></script>
<script src="/docs/static/swagger-ui-standalone-preset.js"></script>
<script src="/docs/static/swagger-initializer.js"></script>
</body>
</html>
`

// The default validator badge calls a server on the internet, so it is switched off.
const initializer = `window.ui = SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  docExpansion: 'list',
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: 'BaseLayout',
})
`

export function docsRoutes(): Route[] {
  const loadAsset = createAssetLoader()
  const routes = [
    plainRoute('/docs', async (exchange) => send(exchange, 'text/html; charset=utf-8', page)),
    plainRoute('/docs/static/:file', async (exchange) => {
      const { file } = exchange.params as { file: string }
      if (file === 'swagger-initializer.js') return send(exchange, 'text/javascript; charset=utf-8', initializer)
      const type = Object.hasOwn(assets, file) ? assets[file] : undefined
      if (type === undefined) throw new Failure('notFound')
      return send(exchange, type, await loadAsset(file))
    }),
  ]
  return routes.map((route) => ({ ...route, isCompressible: true }))
}

/**
 * Shares one copy of a file between all connections: a slow reader holds a reference, not 1.6 MB of its own. The
 * garbage collector frees the copy when no connection uses it.
 */
function createAssetLoader(): (file: string) => Promise<Buffer> {
  const loading = new Map<string, Promise<Buffer>>()
  const loaded = new Map<string, WeakRef<Buffer>>()

  async function load(file: string): Promise<Buffer> {
    try {
      const bytes = await readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${file}`)))
      loaded.set(file, new WeakRef(bytes))
      return bytes
    } finally {
      loading.delete(file)
    }
  }

  return async (file) => {
    const known = loaded.get(file)?.deref()
    if (known) return known
    const pending = loading.get(file) ?? load(file)
    loading.set(file, pending)
    return pending
  }
}

function send(exchange: Exchange, contentType: string, body: string | Buffer): Exchange {
  return exchange.header('content-type', contentType).header('content-security-policy', contentPolicy).send(body)
}
