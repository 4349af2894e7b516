/** The OpenAPI 3.1 document, written from the endpoints of the contract. */
import { type Endpoint, errorStatuses } from '@coffer/contract/endpoint'
import { ErrorBody } from '@coffer/contract/field'
import type { TSchema } from '@coffer/contract/schema'
import type { Route } from '../exchange.ts'
import { partsOf, plainRoute } from '../route.ts'

export function openapiRoute(routes: readonly Route[]): Route {
  let document: Buffer | undefined
  const route = plainRoute('/openapi.json', async (exchange) => {
    // Written on the first request: at start it would cost every process time, and memory for good. As a buffer, one
    // copy serves all connections; a string would be encoded for each response.
    document ??= Buffer.from(JSON.stringify(describeApi(routes), constAsEnum))
    return exchange.header('content-type', 'application/json; charset=utf-8').send(document)
  })
  return { ...route, isCompressible: true }
}

/** Many client generators do not know `const`. */
function constAsEnum(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('const' in value)) return value
  const { const: only, ...rest } = value
  return { ...rest, enum: [only] }
}

function describeApi(routes: readonly Route[]): object {
  const paths: Record<string, object> = {}
  for (const { endpoint } of routes) {
    if (!endpoint) continue
    const path = endpoint.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: describeOperation(endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Coffer',
      version: '1.0.0',
      description:
        'Secrets management: workspaces, teams, projects, environments and their secrets, members and invites, tokens, shares, syncs and the audit trail.',
    },
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'API Key' } } },
    paths,
  }
}

function describeOperation(endpoint: Endpoint): object {
  const { area, summary, permission } = endpoint
  const { params, query, body } = partsOf(endpoint)
  const parameters = [...parametersIn('query', query), ...parametersIn('path', params), ...headerParameters(endpoint)]
  return {
    operationId: operationId(endpoint),
    summary,
    tags: [area],
    description: permission === 'public' ? 'Needs no credential.' : `Needs the permission \`${permission}\`.`,
    security: permission === 'public' ? [] : [{ bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    // A body without required fields may be omitted.
    ...(body && { requestBody: { required: 'required' in body || 'minProperties' in body, content: json(body) } }),
    responses: describeResponses(endpoint),
  }
}

function operationId({ method, path }: Endpoint): string {
  const parts = path.split('/').filter((part) => part && part !== 'v1')
  const words = parts.map((part) => part.replace(/^:/, 'by-')).join('-')
  return `${method.toLowerCase()}-${words}`
}

type ObjectSchema = {
  readonly properties?: Record<string, { readonly description?: string }>
  readonly required?: readonly string[]
}

function parametersIn(place: 'path' | 'query', { properties = {}, required = [] }: ObjectSchema = {}): object[] {
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    description,
    schema,
  }))
}

const text = (description: string) => ({ description, schema: { type: 'string' } })
const ifMatch = text('ETags from earlier reads of the secret, or `*`; 412 if none of them matches.')
const ifNoneMatch = text('The ETag of a response that you already have; 304 if it still matches.')
const etag = text('Changes whenever the response does.')
const nextCursor = text('The `cursor` of the next page; absent on the last page.')
const searchedTo = text(
  'The time back to which the search has looked. A page may hold fewer entries than `limit`, or none, and still have a next one.',
)

function headerParameters({ isConditional, isCached }: Endpoint): object[] {
  return [
    ...(isConditional ? [{ name: 'If-Match', in: 'header', required: false, ...ifMatch }] : []),
    ...(isCached ? [{ name: 'If-None-Match', in: 'header', required: false, ...ifNoneMatch }] : []),
  ]
}

const json = (schema: TSchema) => ({ 'application/json': { schema } })

function describeResponses(endpoint: Endpoint): Record<number, object> {
  const { status, response, streams = [], isCached, isSearch, dryRuns } = endpoint
  const { properties = {} }: ObjectSchema = endpoint.query ?? {}
  const headers = {
    ...(isCached && { ETag: etag }),
    ...('cursor' in properties && { 'X-Next-Cursor': nextCursor }),
    ...(isSearch && { 'X-Searched-To': searchedTo }),
  }
  const streamed = Object.fromEntries(streams.map((type) => [type, { schema: response }]))
  return {
    [status]: {
      description: status === 201 ? 'Created.' : 'Success.',
      headers,
      content: { ...json(response), ...streamed },
    },
    ...(dryRuns && { 200: { description: 'What would be done.', content: json(response) } }),
    ...(isCached && { 304: { description: 'Unchanged since the ETag in If-None-Match.', headers: { ETag: etag } } }),
    ...Object.fromEntries(errorStatuses(endpoint).map((code) => [code, describeError(code, endpoint)])),
  }
}

const errorTexts: Record<number, string> = {
  400: 'The request is not valid; the message starts with the field’s name.',
  401: 'The credential is missing, malformed, unknown, expired or revoked.',
  403: 'Visible to you, but not allowed.',
  404: 'Not found, or outside your scope.',
  408: 'The request took too long to arrive.',
  409: 'Conflicts with existing data.',
  412: 'It has changed since it was read.',
  413: 'The body is larger than this endpoint takes; most take 8 MiB.',
  415: 'The body is not JSON.',
  429: 'Rate limit exceeded; Retry-After says how long to wait.',
  431: 'The path and the headers together are too large.',
  500: 'Something went wrong on our side.',
  503: 'The service is sealed or stopping, or cannot reach its storage or a vendor; Retry-After says how long to wait.',
}

function describeError(code: number, { refusal }: Endpoint): object {
  const schema = code === 400 && refusal ? { anyOf: [ErrorBody, refusal] } : ErrorBody
  return { description: errorTexts[code], content: json(schema) }
}
