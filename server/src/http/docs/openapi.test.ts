/** The OpenAPI document describes exactly the served endpoints; pages outside /v1 load nothing from other servers. */
import { IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { endpoints } from '@coffer/contract/api'
import { type Endpoint, errorStatuses } from '@coffer/contract/endpoint'
import { ErrorBody } from '@coffer/contract/field'
import { exportFormats } from '@coffer/contract/secret-file'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormatsModule from 'ajv-formats'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  createTeam,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { Exchange } from '../exchange.ts'
import { openapiRoute } from './openapi.ts'

type Json = { readonly [name: string]: unknown }
type Content = { readonly [type: string]: { readonly schema: Json } }
type Parameter = { readonly name: string; readonly in: string; readonly required: boolean; readonly schema: Json }
type Reply = { readonly description?: string; readonly content?: Content; readonly headers?: Json }
type Operation = {
  readonly operationId: string
  readonly summary: string
  readonly tags: string[]
  readonly security: Record<string, unknown[]>[]
  readonly parameters?: Parameter[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Content }
  readonly responses: { readonly [status: string]: Reply }
}
type Description = {
  readonly openapi: string
  readonly info: Json
  readonly components: { readonly securitySchemes: Json }
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } }
}
type Schema = { readonly properties?: Record<string, Json>; readonly required?: readonly string[] }

let service: TestService
let owner: TestUser
let description: Description

const metricsToken = 'a-token-for-metrics'

beforeAll(async () => {
  service = await startService({ COFFER_METRICS_TOKEN: metricsToken })
  owner = await registerOwner(service)
  description = (await service.call<Description>('GET', '/openapi.json')).body
})
afterAll(() => service.stop())

const table: [string, Endpoint][] = Object.entries(endpoints)
const templateOf = ({ path }: Endpoint) => path.replace(/:(\w+)/g, '{$1}')

function operationOf(endpoint: Endpoint): Operation {
  const operation = description.paths[templateOf(endpoint)]?.[endpoint.method.toLowerCase()]
  if (!operation) throw new Error(`${endpoint.method} ${endpoint.path} is not described`)
  return operation
}

/** The schema as plain JSON; a constant may also be written as an enum of one value. */
function plain<Shape = Json>(schema: unknown): Shape {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (typeof value !== 'object' || value === null || !('const' in value)) return value
    const { const: only, ...rest } = value
    return { ...rest, enum: [only] }
  })
}

describe('/openapi.json', () => {
  test('is version 1.0.0 of the API, in OpenAPI 3.1', async () => {
    expect(description.openapi).toMatch(/^3\.1\.\d$/)
    expect(description.info).toMatchObject({ title: 'Coffer', version: '1.0.0' })
    expect(description.components.securitySchemes).toEqual({
      bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'API Key' },
    })
    const answer = await service.call('GET', '/openapi.json/')
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(answer.body).toEqual(description)
  })

  test('is built again after a failure, such as too many open files', async () => {
    let options = 0
    const routes = [...service.app.routes]
    const all = routes.values.bind(routes)
    routes[Symbol.iterator] = () => {
      if (++options === 1) throw new Error('EMFILE')
      return all()
    }
    const route = openapiRoute(routes)
    const ask = () => route.run(new Exchange(new IncomingMessage(new Socket()), {} as ServerResponse, '', ''))
    await expect(ask()).rejects.toThrow('EMFILE')
    const { payload } = (await ask()) as Exchange
    expect(JSON.parse(String(payload))).toEqual(description)
  })

  test('describes every endpoint of the table and nothing else', () => {
    const described = Object.entries(description.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const declared = table.map(([, endpoint]) => `${endpoint.method} ${templateOf(endpoint)}`)
    expect(described.sort()).toEqual(declared.sort())
  })

  test('has a unique id for every operation', () => {
    const names = table.map(([, endpoint]) => operationOf(endpoint).operationId)
    expect(new Set(names).size).toBe(names.length)
    for (const name of names) expect(name).toMatch(/^[A-Za-z][\w-]*$/)
  })

  test('has only schemas of JSON Schema 2020-12, without dangling references', () => {
    // The types of the package describe an ES module, but it is published as CommonJS.
    const addFormats = addFormatsModule as unknown as (ajv: Ajv2020) => Ajv2020
    const ajv = addFormats(new Ajv2020({ strict: false }))
    for (const [, endpoint] of table) {
      const { parameters = [], requestBody, responses } = operationOf(endpoint)
      const contents = [requestBody?.content ?? {}, ...Object.values(responses).map(({ content = {} }) => content)]
      const schemas = contents.flatMap((content) => Object.values(content).map(({ schema }) => schema))
      for (const schema of [...schemas, ...parameters.map((parameter) => parameter.schema)]) ajv.compile(schema)
    }
    expect(JSON.stringify(description)).not.toContain('"$ref"')
  })

  test.each(table)('%s is described with its parameters and their schemas', (_name, endpoint) => {
    const { parameters = [], summary, tags } = operationOf(endpoint)
    expect(summary).toBe(endpoint.summary)
    expect(tags).toEqual([endpoint.area])
    const described = parameters.map((parameter) => `${parameter.in} ${parameter.name}`)
    const declared = (['path', 'query'] as const).flatMap((place) => {
      const schema = plain<Schema>((place === 'path' ? endpoint.params : endpoint.query) ?? {})
      for (const [name, { description: _text, ...form }] of Object.entries(schema.properties ?? {})) {
        const parameter = parameters.find((candidate) => candidate.in === place && candidate.name === name)
        expect(parameter?.schema, name).toMatchObject(form)
        expect(parameter?.required, name).toBe(schema.required?.includes(name) ?? false)
      }
      return Object.keys(schema.properties ?? {}).map((name) => `${place} ${name}`)
    })
    if (endpoint.isConditional) declared.push('header If-Match')
    if (endpoint.isCached) declared.push('header If-None-Match')
    expect(described.sort()).toEqual(declared.sort())
    const inPath = [...endpoint.path.matchAll(/:(\w+)/g)].map(([, name]) => `path ${name}`)
    expect(described.filter((name) => name.startsWith('path ')).sort()).toEqual(inPath.sort())
  })

  test.each(table)(
    '%s is described with its body, which is required only if it cannot be omitted',
    (_name, endpoint) => {
      const { requestBody } = operationOf(endpoint)
      if (endpoint.method === 'GET') {
        expect(requestBody).toBeUndefined()
        return
      }
      const mayBeEmpty = !endpoint.body || new Ajv({ strict: false }).validate(endpoint.body, {})
      expect(requestBody?.required ?? false).toBe(!mayBeEmpty)
      if (!endpoint.body) return
      expect(Object.keys(requestBody?.content ?? {})).toEqual(['application/json'])
      expect(requestBody?.content['application/json']?.schema).toEqual(plain(endpoint.body))
    },
  )

  test.each(table)('%s is described with its response, its errors and its security', (_name, endpoint) => {
    const { responses, security } = operationOf(endpoint)
    expect(security).toEqual(endpoint.permission === 'public' ? [] : [{ bearer: [] }])
    const others = [...(endpoint.dryRuns ? [200] : []), ...(endpoint.isCached ? [304] : [])]
    const statuses = [endpoint.status, ...others, ...errorStatuses(endpoint)].map(String)
    expect(Object.keys(responses).sort()).toEqual(statuses.sort())
    const headersOf = (status: number) => Object.keys(responses[status]?.headers ?? {})
    const isPaged = 'cursor' in (plain<Schema>(endpoint.query ?? {}).properties ?? {})
    const cached = endpoint.isCached ? ['ETag'] : []
    expect(headersOf(endpoint.status)).toEqual(isPaged ? ['X-Next-Cursor'] : cached)
    expect(headersOf(304)).toEqual(cached)
    const success = responses[endpoint.status]?.content
    expect(plain(success?.['application/json']?.schema)).toEqual(plain(endpoint.response))
    const types = ['application/json', ...(endpoint.streams ?? [])]
    expect(Object.keys(success ?? {}).sort()).toEqual(types.sort())
    if (endpoint.dryRuns) {
      const { description: _what, ...schema } = plain(responses[200]?.content?.['application/json']?.schema)
      expect(schema).toEqual(plain(endpoint.response))
    }
    if (endpoint.isCached) expect(responses[304]?.content).toBeUndefined()
    for (const status of errorStatuses(endpoint)) {
      const { description: text, content = {} }: Reply = responses[status] ?? {}
      expect(text, String(status)).toMatch(/\S/)
      // Exports and streams report errors as JSON too.
      expect(Object.keys(content), String(status)).toEqual(['application/json'])
      const { description: _text, ...schema } = plain(content['application/json']?.schema)
      // Only device polling has an error that is not a message.
      const isExcepted = status === 400 && endpoint.refusal !== undefined
      expect(schema, String(status)).toEqual(plain(isExcepted ? { anyOf: [ErrorBody, endpoint.refusal] } : ErrorBody))
    }
  })
})

test.each(exportFormats)('an export as %s has a described content type', async (format) => {
  const project = await createProject(service, owner.session, `export-${format}`)
  const path = `/v1/workspace/main/project/${project.slug}/secret/export`
  const search = `environmentId=${project.environments[0]?.id}&format=${format}`
  const { status, headers } = await service.call('GET', `${path}?${search}`, { token: owner.session })
  expect(status).toBe(200)
  const { content = {} }: Reply = operationOf(endpoints.exportSecrets).responses[200] ?? {}
  expect(Object.keys(content)).toContain(headers.get('content-type')?.split(';')[0])
})

const servedRoutes = () => service.app.routes.map(({ method, path }) => `${method} ${path}`)

describe('the served routes', () => {
  test('under /v1 are those of the endpoint table', () => {
    const served = servedRoutes().filter((route) => route.includes(' /v1'))
    expect(served.sort()).toEqual(table.map(([, { method, path }]) => `${method} ${path}`).sort())
  })

  test('HEAD gets the headers of the GET response', async () => {
    const options = { headers: { authorization: `Bearer ${owner.session}` } }
    for (const path of ['/v1/me', '/v1/workspace', '/healthz', '/openapi.json', '/v1/nowhere']) {
      const whole = await fetch(service.url + path, options)
      const head = await fetch(service.url + path, { ...options, method: 'HEAD' })
      expect(head.status).toBe(whole.status)
      expect(await head.text()).toBe('')
      expect(head.headers.get('content-length')).toBe(String((await whole.arrayBuffer()).byteLength))
      expect(head.headers.get('content-type')).toBe(whole.headers.get('content-type'))
    }
  })

  test('outside /v1 are the API reference, the OpenAPI document, health, metrics and provider logos', () => {
    const outside = servedRoutes().filter((route) => route.startsWith('GET ') && !route.startsWith('GET /v1'))
    const roots = new Set(outside.map((route) => route.split('/')[1]?.replace('*', '')))
    expect([...roots].sort()).toEqual(['', 'docs', 'healthz', 'logo', 'metrics', 'openapi.json', 'readyz'])
  })

  test.each(table)('%s is served with and without a trailing slash', async (_name, endpoint) => {
    const id = '01890000-0000-7000-8000-000000000000'
    const path = endpoint.path.replace(/:(ws|prj)/g, 'main').replace(/:\w+/g, id)
    // A login without a body is invalid; a share is looked up by its token alone.
    const expected = endpoint.permission !== 'public' ? 401 : endpoint.params ? 404 : 400
    for (const spelling of [path, `${path}/`, `${path}?a=b`, `${path}/?a=b`]) {
      expect((await service.call(endpoint.method, spelling)).status, spelling).toBe(expected)
    }
  })

  test('a list is the same with and without a trailing slash', async () => {
    for (const path of ['/v1/workspace', '/v1/workspace/main/team', '/v1/workspace/main/project']) {
      const [bare, slashed] = await Promise.all(
        [path, `${path}/`].map((spelling) => service.call('GET', spelling, { token: owner.session })),
      )
      expect(bare).toMatchObject({ status: 200 })
      expect(slashed?.body).toEqual(bare?.body)
    }
  })
})

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

  test('the root path redirects to it', async () => {
    const { status, headers } = await page('/')
    expect(status).toBe(302)
    expect(headers.get('location')).toBe('/docs')
  })
})

describe('health', () => {
  test.each([
    ['/healthz', { status: 'ok' }],
    ['/readyz', { status: 'ready' }],
  ])('%s needs no credential and is not rate-limited', async (path, body) => {
    const answer = await service.call('GET', path)
    expect(answer).toMatchObject({ status: 200, body })
    expect(answer.headers.has('ratelimit-limit')).toBe(false)
  })
})

describe('/metrics', () => {
  const read = (authorization?: string) =>
    service.call<string>('GET', '/metrics', authorization === undefined ? {} : { headers: { authorization } })

  test.each([
    [
      'is off by default and says how to turn it on',
      {},
      'Metrics are off: set COFFER_METRICS_TOKEN or COFFER_METRICS_PORT.',
    ],
    [
      'on a separate port is not found here and says so',
      { COFFER_METRICS_PORT: '9464' },
      'Metrics are on a separate port: see COFFER_METRICS_PORT.',
    ],
  ])('%s', async (_what, settings, message) => {
    const without = await startService(settings)
    try {
      const answer = await without.call('GET', '/metrics', { token: metricsToken })
      expect(answer).toMatchObject({ status: 404, body: { message } })
    } finally {
      await without.stop()
    }
  })

  test('is refused without its token', async () => {
    const wrong = [undefined, '', 'Bearer', 'Bearer ', `Bearer ${metricsToken}x`, metricsToken, 'Basic x', 'Bearer é']
    // The same length as the right token, with another last character.
    wrong.push(`Bearer ${metricsToken.slice(0, -1)}x`)
    for (const authorization of [...wrong, `Bearer ${owner.session}`]) {
      expect((await read(authorization)).status, authorization).toBe(401)
    }
  })

  test('counts requests by route, and contains nothing of the requests', async () => {
    const teamId = await createTeam(service, owner.session, 'Counted Team')
    const project = await createProject(service, owner.session, 'counted-project')
    const { token, id } = await createToken(service, owner.session)
    const as = { token: owner.session }
    await service.call('PUT', `/v1/workspace/main/team/${teamId}`, { ...as, body: { name: 'Renamed Team' } })
    await service.call('GET', `/v1/workspace/main/project/${project.slug}/environment?q=query-text`, { token })
    await service.call('GET', '/v1/never/heard-of', as)
    await service.call('GET', '/v1/%zz', as)
    await service.call('DELETE', `/v1/workspace/main/tokens/${id}`, as)

    const { status, headers, text } = await read(`Bearer ${metricsToken}`)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const counted = (method: string, route: string, code: number) =>
      `coffer_http_requests_total{method="${method}",route="${route}",status="${code}"} 1`
    const lines = text.split('\n')
    expect(lines).toContain(counted('PUT', '/v1/workspace/:ws/team/:id', 200))
    expect(lines).toContain(counted('GET', '/v1/workspace/:ws/project/:prj/environment', 200))
    expect(lines).toContain(counted('DELETE', '/v1/workspace/:ws/tokens/:id', 200))
    const secrets = [
      teamId,
      id,
      token,
      owner.id,
      owner.email,
      owner.session,
      'counted-project',
      'heard-of',
      'query-text',
    ]
    for (const secret of [...secrets, 'Renamed', '%zz', 'main/']) expect(text).not.toContain(secret)
  })

  test('is well-formed: every line is a sample or a comment, and every histogram adds up', async () => {
    const { text } = await read(`Bearer ${metricsToken}`)
    const lines = text.split('\n').filter(Boolean)
    const label = '[a-zA-Z_]\\w*="(?:[^"\\\\\\n]|\\\\.)*"'
    const sample = new RegExp(`^([a-zA-Z_:][\\w:]*)(\\{${label}(?:,${label})*,?\\})? (\\S+)$`)
    const kinds = new Map<string, string>()
    for (const line of lines) {
      const [, name, kind] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
      if (name && kind) {
        expect(kinds.has(name), line).toBe(false)
        kinds.set(name, kind)
      } else if (!line.startsWith('# HELP ')) {
        expect(line).toMatch(sample)
        expect(sample.exec(line)?.[3]).toMatch(/^(-?[\d.]+(e[+-]?\d+)?|nan|[+-]inf)$/i)
      }
    }
    expect(kinds.get('coffer_http_requests_total')).toBe('counter')
    const countIn = (line = '') => Number(line.split(' ').at(-1))
    const whole = lines.filter((line) => /^coffer_.*_bucket\{le="\+Inf",/.test(line))
    expect(whole.length).toBeGreaterThan(0)
    for (const line of whole) {
      const [, name = '', series = ''] = /^(\w+)_bucket\{le="\+Inf",(.*)\} /.exec(line) ?? []
      expect(lines, line).toContain(`${name}_count{${series}} ${countIn(line)}`)
      const buckets = lines
        .filter((candidate) => candidate.startsWith(`${name}_bucket{le=`) && candidate.includes(`,${series}} `))
        .map(countIn)
      expect(buckets).toHaveLength(12)
      expect(buckets).toEqual(buckets.toSorted((a, b) => a - b))
    }
  })
})
