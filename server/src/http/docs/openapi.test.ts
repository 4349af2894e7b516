/** The OpenAPI document describes exactly the served endpoints. */
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
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { Exchange } from '../exchange.ts'
import { openapiRoute } from './openapi.ts'

type Json = { readonly [name: string]: unknown }
type Content = { readonly [type: string]: { readonly schema: Json } }
type Parameter = {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly style?: string
  readonly explode?: boolean
  readonly schema: Json
}
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
  readonly servers: { readonly url: string }[]
  readonly tags: { readonly name: string; readonly description: string }[]
  readonly components: { readonly securitySchemes: Json; readonly schemas: Readonly<Record<string, Json>> }
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } }
}
type Schema = { readonly properties?: Record<string, Json>; readonly required?: readonly string[] }

let service: TestService
let owner: TestUser
let description: Description

beforeAll(async () => {
  service = await startService()
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

const componentPath = '#/components/schemas/'

/** The schema as plain JSON, without references; a constant may also be written as an enum of one value. */
function plain<Shape = Json>(schema: unknown): Shape {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (typeof value !== 'object' || value === null) return value
    if ('$ref' in value) return plain(description.components.schemas[value.$ref.replace(componentPath, '')])
    if ('discriminator' in value && 'oneOf' in value) {
      const { propertyName } = value.discriminator
      return { oneOf: value.oneOf, discriminator: { propertyName } }
    }
    if (!('const' in value)) return value
    const { const: only, ...rest } = value
    return { ...rest, enum: [only] }
  })
}

describe('/openapi.json', () => {
  test('is version 1.0.0 of the API, in OpenAPI 3.1', async () => {
    expect(description.openapi).toMatch(/^3\.1\.\d$/)
    expect(description.info).toMatchObject({ title: 'Coffer', version: '1.0.0' })
    expect(description.servers.map(({ url }) => url)).toEqual([service.settings.COFFER_PUBLIC_URL, '/'])
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
    const route = openapiRoute(routes, String(service.settings.COFFER_PUBLIC_URL))
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
      for (const schema of [...schemas, ...parameters.map((parameter) => parameter.schema)]) ajv.compile(plain(schema))
    }
    const references = [...JSON.stringify(description).matchAll(/"\$ref":"([^"]*)"/g)].map(([, path]) => path)
    const names = Object.keys(description.components.schemas).map((name) => componentPath + name)
    expect([...new Set(references)].sort()).toEqual(names.sort())
  })

  test.each(table)('%s is described with its parameters and their schemas', (_name, endpoint) => {
    const { parameters = [], summary, tags } = operationOf(endpoint)
    expect(summary).toBe(endpoint.summary)
    expect(tags).toEqual([endpoint.area])
    const described = parameters.map((parameter) => `${parameter.in} ${parameter.name}`)
    const declared = (['path', 'query'] as const).flatMap((place) => {
      const schema = plain<Schema>((place === 'path' ? endpoint.params : endpoint.query) ?? {})
      for (const [name, { description: _text, explode: _explode, ...form }] of Object.entries(
        schema.properties ?? {},
      )) {
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
      expect(plain(requestBody?.content['application/json']?.schema)).toEqual(plain(endpoint.body))
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
    const searched = endpoint.isSearch ? ['X-Searched-To'] : []
    const cached = endpoint.isCached ? ['ETag'] : []
    expect(headersOf(endpoint.status)).toEqual(isPaged ? ['X-Next-Cursor', ...searched] : cached)
    expect(headersOf(304)).toEqual(cached)
    const success = responses[endpoint.status]?.content
    const isExport = endpoint === endpoints.exportSecrets
    expect(plain(success?.['application/json']?.schema)).toEqual(plain(isExport ? textByKey : endpoint.response))
    for (const type of endpoint.streams ?? []) expect(success?.[type]?.schema, type).toEqual({ type: 'string' })
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

const textByKey = { type: 'object', additionalProperties: { type: 'string' } }

describe('generators of clients', () => {
  test('tell the operations of a batch apart by named schemas', () => {
    const { requestBody } = operationOf(endpoints.writeBatch)
    const body = requestBody?.content['application/json']?.schema as { properties?: Record<string, { items?: Json }> }
    const names = { set: 'SetOperation', rename: 'RenameOperation', delete: 'DeleteOperation' }
    const mapping = Object.fromEntries(Object.entries(names).map(([op, name]) => [op, componentPath + name]))
    expect(body.properties?.operations?.items).toEqual({
      oneOf: Object.values(mapping).map(($ref) => ({ $ref })),
      discriminator: { propertyName: 'op', mapping },
    })
    for (const [op, name] of Object.entries(names)) {
      const shape = description.components.schemas[name]
      expect(shape).toMatchObject({ type: 'object', additionalProperties: false, title: name })
      expect(shape?.required).toEqual(expect.arrayContaining(['op', 'key']))
      expect(shape?.properties).toMatchObject({ op: { type: 'string', enum: [op] } })
    }
  })

  test('see one spelling of environmentId, and no two fields that differ only in case and underscores', () => {
    for (const [name, endpoint] of table) {
      const { parameters = [] } = operationOf(endpoint)
      const folded = parameters.map(
        (parameter) => `${parameter.in} ${parameter.name.replaceAll('_', '').toLowerCase()}`,
      )
      expect(new Set(folded).size, name).toBe(folded.length)
    }
    expect(JSON.stringify(description)).not.toContain('environment_id')
  })

  test('see a list in a query as an exploded array, and no parameter of two types', () => {
    const lists = table.flatMap(([name, endpoint]) =>
      (operationOf(endpoint).parameters ?? []).flatMap((parameter) => {
        expect(parameter.schema, `${name} ${parameter.name}`).not.toHaveProperty('anyOf')
        expect(typeof parameter.schema.type, `${name} ${parameter.name}`).toBe('string')
        if (parameter.schema.type !== 'array') return []
        expect(parameter).toMatchObject({ in: 'query', style: 'form', explode: true })
        return `${name} ${parameter.name}`
      }),
    )
    const read = ['listSecrets environmentId', 'readSecret environmentId']
    expect(lists.sort()).toEqual(['exportSecrets allowName', 'exportSecrets key', ...read])
  })

  test('group the operations by tags that the document describes', () => {
    const described = description.tags.map(({ name }) => name)
    for (const { name, description: text } of description.tags) expect(text, name).toMatch(/\S/)
    const used = new Set(table.map(([, endpoint]) => operationOf(endpoint).tags[0]))
    expect(described).toEqual([...used].sort())
  })

  test('see an export as an object of texts in JSON, and as text in every other type', () => {
    const { content = {} }: Reply = operationOf(endpoints.exportSecrets).responses[200] ?? {}
    const text = { schema: { type: 'string' } }
    expect(content).toEqual({
      'application/json': { schema: textByKey },
      ...{ 'text/plain': text, 'application/yaml': text, 'text/csv': text },
    })
  })
})

test('a query takes one value of a list, several, and either spelling of environmentId', async () => {
  const project = await createProject(service, owner.session, 'lists')
  const [development, staging] = project.environments.map(({ id }) => id)
  const secrets = '/v1/workspace/main/project/lists/secret'
  const call = (path: string) => service.call(`GET`, `${secrets}${path}`, { token: owner.session })
  const written = { environments: [development, staging], secrets: ['A', 'B'].map((key) => ({ key, value: key })) }
  await service.call('POST', secrets, { token: owner.session, body: written })
  const rowsOf = async (search: string) => {
    const { body } = await service.call<{ values: unknown[] }[]>('GET', `${secrets}?${search}`, {
      token: owner.session,
    })
    return body.map(({ values }) => values.length)
  }
  // Asked twice: the second answer takes the remembered meaning of the address.
  for (const name of ['environmentId', 'environment_id', 'environmentId', 'environment_id']) {
    expect(await rowsOf(`${name}=staging`)).toEqual([1, 1])
    expect(await rowsOf(`${name}=staging&${name}=${development}`)).toEqual([2, 2])
    expect(await rowsOf(`environmentId=staging&${name}=staging`)).toEqual([1, 1])
    expect(await call(`?${name}=`)).toMatchObject({
      status: 400,
      body: { message: 'environmentId: must not be empty.' },
    })
    const both = `environmentId=staging&environment_id=staging`
    expect((await call(`/export?${both}&format=json&key=B`)).body).toEqual({ B: 'B' })
    expect((await call(`/export?${name}=staging&key=B&key=A&format=json`)).body).toEqual({ A: 'A', B: 'B' })
    expect(await call(`/export?${name}=staging&${name}=development`)).toMatchObject({ status: 400 })
  }
  expect(await call('/export?environmentId=staging&key=B&key=no.name')).toMatchObject({
    status: 400,
    body: { message: 'key: has characters or a format that is not allowed.' },
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
    // The length of a compressed response is not known without compressing it: response/compress.test.ts.
    const options = { headers: { authorization: `Bearer ${owner.session}`, 'accept-encoding': 'identity' } }
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
    const ofPublic = endpoint.params ? 404 : endpoint.method === 'GET' ? 200 : 400
    const expected = endpoint.permission === 'public' ? ofPublic : 401
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
