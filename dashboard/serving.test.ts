/** How the service serves the built dashboard: which file for which path, and with which headers. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type IncomingHttpHeaders, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startService, type TestService } from '../test/harness.ts'

let service: TestService
/** The script that index.html loads first. */
let script: string

beforeAll(async () => {
  service = await startService()
  script = /src="(\/assets\/[^"]+\.js)"/.exec((await ask('/', browser)).text)?.[1] ?? ''
})
afterAll(() => service.stop())

const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }

type Answer = { status: number; headers: IncomingHttpHeaders; bytes: Buffer; text: string }

/** Sends the path as it is written: `fetch` would normalise it. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET', at = service): Promise<Answer> {
  const { hostname, port } = new URL(at.url)
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, method, headers, agent: false }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part)).on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(parts)
        const { statusCode: status = 0, headers: received } = response
        resolve({ status, headers: received, bytes, text: bytes.toString() })
      })
    })
    asked.on('error', reject).end()
  })
}

const isIndex = ({ text }: Answer) => text.includes('<div id="app">')
const notFound = { status: 404, text: '{"message":"Not found."}' }

describe('pages', () => {
  test.each(['/', '/setup', '/main', '/main/api?show=all', '/main/-/access/members', '/main/api/syncs/new/x/1'])(
    '%s is the dashboard',
    async (path) => {
      const answer = await ask(path, browser)
      expect(answer.status).toBe(200)
      expect(isIndex(answer)).toBe(true)
      expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    },
  )

  test.each(['/login', '/share/cof_share_x', '/share/x/', '/invite', '/invite/', '/device', '/device?code=x'])(
    '%s is a plain page, which loads no React',
    async (path) => {
      const answer = await ask(path, browser)
      expect(answer.status).toBe(200)
      expect(isIndex(answer)).toBe(false)
      expect(answer.text).toMatch(/<title>.*<\/title>/)
      expect(answer.text).not.toContain(script)
    },
  )

  test('are never stored, and allow scripts, styles and requests of this service alone', async () => {
    for (const path of ['/', '/share/x', '/main/api']) {
      const { headers } = await ask(path, browser)
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; " +
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
      })
    }
  })

  test('hold no script, style or handler of their own, which the policy would refuse', async () => {
    for (const path of ['/', '/share/x', '/invite', '/device']) {
      const { text } = await ask(path, browser)
      expect(text).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/)
    }
  })

  test.each([undefined, '*/*', 'application/json', 'image/avif,image/webp,*/*', ''])(
    'are not served to a client that accepts %j',
    async (accept) => {
      for (const path of ['/main', '/share/x', '/device', '/index.html']) {
        expect(await ask(path, accept === undefined ? {} : { accept }), path).toMatchObject(notFound)
      }
    },
  )

  test('are not served under the paths of programs', async () => {
    for (const path of [
      '/v1',
      '/v1/',
      '/v1/nothing',
      '/v1/workspace/x/y/z',
      '/docs/x',
      '/openapi.json/x',
      '/healthz/x',
    ]) {
      expect(await ask(path, browser), path).toMatchObject(notFound)
    }
    for (const path of [
      '/readyz/x',
      '/metrics/x',
      '/logo',
      '/logo/x.png',
      '/assets',
      '/assets/',
      '/assets/gone-1234.js',
    ]) {
      expect(await ask(path, browser), path).toMatchObject(notFound)
    }
  })

  test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('are not served to %s', async (method) => {
    expect(await ask('/main', browser, method)).toMatchObject(notFound)
  })

  test('at the root, a program is led to the API reference', async () => {
    const { status, headers } = await ask('/', { accept: '*/*' })
    expect([status, headers.location]).toEqual([302, '/docs'])
  })
})

describe('files', () => {
  test('below /assets have their digest in their name, and are kept for a year', async () => {
    const { status, headers } = await ask(script)
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'cache-control': 'public, max-age=31536000, immutable',
      'content-type': 'text/javascript; charset=utf-8',
      'x-content-type-options': 'nosniff',
    })
    expect(script).toMatch(/-[\w-]{8}\.js$/)
  })

  test('with a lasting name are asked for again after an hour', async () => {
    const { status, headers } = await ask('/icon.svg')
    expect([status, headers['content-type']]).toEqual([200, 'image/svg+xml'])
    expect(headers['cache-control']).toBe('public, max-age=3600')
    expect(headers['content-security-policy']).toContain("default-src 'none'")
  })

  test.each([
    ['br, gzip', 'br'],
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0.5, gzip', 'gzip'],
    ['br;q=0, gzip;q=0.1', 'gzip'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['identity, br;q=0.5', undefined],
    ['zstd', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('for Accept-Encoding %j are sent as %j', async (accepted, encoding) => {
    const plain = await ask(script)
    const answer = await ask(script, accepted === undefined ? {} : { 'accept-encoding': accepted })
    expect(answer.headers['content-encoding']).toBe(encoding)
    expect(answer.headers.vary).toBe('Accept-Encoding')
    expect(answer.headers['content-length']).toBe(String(answer.bytes.length))
    const decode = { br: brotliDecompressSync, gzip: gunzipSync, none: (bytes: Buffer) => bytes }
    expect(decode[encoding === 'br' || encoding === 'gzip' ? encoding : 'none'](answer.bytes)).toEqual(plain.bytes)
    if (encoding) expect(answer.bytes.length).toBeLessThan(plain.bytes.length / 2)
  })

  test('are not sent again to a client that has them, each encoding by its own ETag', async () => {
    const compressed = { 'accept-encoding': 'br' }
    const [plain, brotli] = await Promise.all([ask(script), ask(script, compressed)])
    const { etag = '' } = brotli.headers
    expect(etag).toMatch(/^"[\w-]{22}"$/)
    expect(etag).not.toBe(plain.headers.etag)
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const again = await ask(script, { ...compressed, 'if-none-match': known })
      expect(again).toMatchObject({ status: 304, text: '' })
      expect(again.headers).toMatchObject({
        etag,
        vary: 'Accept-Encoding',
        'cache-control': expect.stringContaining('immutable'),
      })
    }
    for (const other of ['"x"', plain.headers.etag ?? '', etag.slice(1, -1), '']) {
      expect((await ask(script, { ...compressed, 'if-none-match': other })).status, other).toBe(200)
    }
  })

  test('and pages answer HEAD with the headers of GET alone', async () => {
    for (const [path, headers] of [
      [script, {}],
      [script, { 'accept-encoding': 'br' }],
      ['/', browser],
      ['/icon.svg', {}],
    ] as const) {
      const [whole, head] = await Promise.all([ask(path, headers), ask(path, headers, 'HEAD')])
      expect(head.bytes).toHaveLength(0)
      const { date: _date, 'x-request-id': _id, ...expected } = whole.headers
      expect(head).toMatchObject({ status: 200, headers: expected })
    }
    expect((await ask('/main', {}, 'HEAD')).status).toBe(404)
  })

  test.each([
    '/../package.json',
    '/assets/../../package.json',
    '/assets/../../build.ts',
    '/assets/..%2f..%2fbuild.ts',
    '/assets/%2e%2e/%2e%2e/build.ts',
    '/assets/..\\..\\build.ts',
    '/.sources',
    '/assets/.',
    '//icon.svg',
    '/./icon.svg',
    '/icon.svg/',
    '/icon.svg%00',
    '/toString',
    '/__proto__',
    '//example.com/%2e%2e',
  ])('outside the build are not served: %s', async (path) => {
    expect([404, 400]).toContain((await ask(path)).status)
    const asPage = await ask(path, browser)
    expect(asPage.status === 200 ? isIndex(asPage) : [404, 400].includes(asPage.status)).toBe(true)
  })

  test('are not served as compressed copies, which have no type of their own', async () => {
    expect(await ask(`${script}.br`)).toMatchObject(notFound)
    expect(await ask(`${script}.gz`)).toMatchObject(notFound)
  })
})

describe('another build', () => {
  test('is absent: the service is the API alone', async () => {
    const bare = await startService({}, { dashboardFolder: join(tmpdir(), 'coffer-no-such-folder') })
    try {
      expect(bare.app.hasDashboard).toBe(false)
      for (const path of ['/main', '/login', '/share/x', '/icon.svg', '/assets/x.js']) {
        expect(await ask(path, browser, 'GET', bare), path).toMatchObject(notFound)
      }
      expect((await ask('/', browser, 'GET', bare)).headers.location).toBe('/docs')
      expect((await ask('/v1/auth/state', {}, 'GET', bare)).status).toBe(200)
    } finally {
      await bare.stop()
    }
  })

  test('changes while the service runs: only files of the start are served, and those that are gone are not found', async () => {
    const dashboardFolder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
    for (const name of ['index.html', 'icon.svg']) await writeFile(join(dashboardFolder, name), '<div id="app">')
    const other = await startService({}, { dashboardFolder })
    try {
      await writeFile(join(dashboardFolder, 'late.svg'), '<svg>')
      expect(await ask('/late.svg', {}, 'GET', other)).toMatchObject(notFound)
      await rm(dashboardFolder, { recursive: true })
      for (const path of ['/main', '/icon.svg']) {
        const gone = await ask(path, browser, 'GET', other)
        expect(gone).toMatchObject(notFound)
        expect(gone.headers).not.toHaveProperty('cache-control')
        expect(gone.headers).not.toHaveProperty('etag')
      }
    } finally {
      await other.stop()
      await rm(dashboardFolder, { recursive: true, force: true })
    }
  })
})
