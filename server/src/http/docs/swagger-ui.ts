/**
 * The rendered API reference: the files of Swagger UI, read on request. The page loads nothing from other servers. An
 * override in package.json replaces the package that reports each installation of Swagger UI to its vendor.
 */
import { Failure } from '../../failure.ts'
import { installation } from '../../installation.ts'
import type { Exchange, Route } from '../exchange.ts'
import { createFileLoader, sendFile } from '../response/static-file.ts'
import { plainRoute } from '../route.ts'

/** What the page loads of Swagger UI, with the media types. */
export const swaggerUiFiles: Readonly<Record<string, string>> = {
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
  const load = createFileLoader()
  const routes = [
    plainRoute('/docs', async (exchange) => describe(exchange, 'text/html; charset=utf-8').send(page)),
    plainRoute('/docs/static/:file', async (exchange) => {
      const { file } = exchange.params as { file: string }
      if (file === 'swagger-initializer.js')
        return describe(exchange, 'text/javascript; charset=utf-8').send(initializer)
      const type = Object.hasOwn(swaggerUiFiles, file) ? swaggerUiFiles[file] : undefined
      if (type === undefined) throw new Failure('notFound')
      return sendFile(describe(exchange, type), await load(installation.findSwaggerUiFile(file)))
    }),
  ]
  return routes.map((route) => ({ ...route, isCompressible: true }))
}

function describe(exchange: Exchange, contentType: string): Exchange {
  return exchange.header('content-type', contentType).header('content-security-policy', contentPolicy)
}
