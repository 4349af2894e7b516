/** The API reference at /docs loads nothing from other servers, and serves no other files. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startService, type TestService } from '../../../../test/harness.ts'

let service: TestService

beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describe('/docs', () => {
  const page = async (path: string) => {
    const response = await fetch(service.url + path, { redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const linksIn = (html: string) => [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, link = '']) => link)
  const addressesIn = (css: string) =>
    [...css.matchAll(/(?:url\(|@import\s)\s*["']?([^"')\s]*)/g)].map(([, a = '']) => a)

  test.each(['/docs', '/docs/'])('%s and everything that it loads is served here', async (path) => {
    const { status, text, headers } = await page(path)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(linksIn(text).length).toBeGreaterThan(3)
    for (const link of linksIn(text)) {
      const url = new URL(link, service.url + path)
      expect(url.origin, link).toBe(service.url)
      const asset = await page(url.pathname)
      expect(asset.status, link).toBe(200)
      expect(asset.text.length, link).toBeGreaterThan(0)
      if (!link.endsWith('.css')) continue
      for (const address of addressesIn(asset.text)) expect(address).toMatch(/^(data:|#|[./])/)
    }
  })

  test('shows the OpenAPI document of this service and uses no external validator', async () => {
    const { text } = await page('/docs/static/swagger-initializer.js')
    expect(text).toContain("url: '/openapi.json'")
    expect(text).toContain('validatorUrl: null')
  })

  test('forbids the browser to contact any other server', async () => {
    const { headers } = await page('/docs')
    const policy = new Map(
      (headers.get('content-security-policy') ?? '')
        .split(';')
        .map((directive) => directive.trim().split(/\s+/))
        .map(([name = '', ...sources]) => [name, sources]),
    )
    expect(policy.get('default-src')).toEqual(["'self'"])
    const foreign = [...policy].flatMap(([name, sources]) =>
      sources.filter((source) => !/^('.*'|data:)$/.test(source)).map((source) => `${name} ${source}`),
    )
    expect(foreign).toEqual([])
    // Without TLS, this directive would rewrite the asset URLs of the page to https, where nothing is served.
    expect(policy.has('upgrade-insecure-requests')).toBe(false)
  })

  test.each([
    '/docs/static/../../package.json',
    '/docs/static/..%2f..%2fpackage.json',
    '/docs/static/%2e%2e/%2e%2e/package.json',
    '/docs/static/nothing.js',
    '/docs/nothing',
  ])('%s is not found', async (path) => {
    expect((await service.call('GET', path)).status).toBe(404)
  })

  test.each(['identity', 'gzip', 'br'])('a file that the client has in %s is not sent again', async (encoding) => {
    const ask = (known: Record<string, string>) =>
      fetch(`${service.url}/docs/static/swagger-ui.css`, { headers: { 'accept-encoding': encoding, ...known } })
    const first = await ask({})
    expect((await first.text()).length).toBeGreaterThan(0)
    const etag = first.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[^"]+"$/)
    const again = await ask({ 'if-none-match': etag })
    expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, etag, ''])
    expect((await ask({ 'if-none-match': '"other"' })).status).toBe(200)
  })

  test('the root path redirects to it', async () => {
    const { status, headers } = await page('/')
    expect(status).toBe(302)
    expect(headers.get('location')).toBe('/docs')
  })
})
