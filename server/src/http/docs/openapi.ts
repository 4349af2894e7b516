/** The OpenAPI 3.1 document, written from the endpoints of the contract. */
import { type Endpoint, errorStatuses } from '@coffer/contract/endpoint'
import { ErrorBody } from '@coffer/contract/field'
import type { TSchema } from '@coffer/contract/schema'
import type { Route } from '../exchange.ts'
import { partsOf, plainRoute } from '../route.ts'

export function openapiRoute(routes: readonly Route[], publicUrl: string): Route {
  let document: Buffer | undefined
  const route = plainRoute('/openapi.json', async (exchange) => {
    // Written on the first request: at start it would cost every process time, and memory for good. As a buffer, one
    // copy serves all connections; a string would be encoded for each response.
    document ??= Buffer.from(writeDocument(routes, publicUrl))
    return exchange.header('content-type', 'application/json; charset=utf-8').send(document)
  })
  return { ...route, isCompressible: true }
}

type Shape = {
  readonly title: string
  readonly properties: Readonly<Record<string, { readonly const?: string } | undefined>>
}
type Variants = { readonly discriminator: { readonly propertyName: string }; readonly oneOf: readonly Shape[] }

/** The shapes of a discriminated union are named schemas: a discriminator cannot tell inline ones apart. */
function writeDocument(routes: readonly Route[], publicUrl: string): string {
  const schemas: Record<string, Shape> = {}
  const isVariants = (value: object): value is Variants => 'discriminator' in value && 'oneOf' in value
  // The components are written last, once the paths have named all their shapes.
  return JSON.stringify(describeApi(routes, publicUrl, schemas), (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value
    // Many client generators do not know `const`.
    if ('const' in value) {
      const { const: only, ...rest } = value
      return { ...rest, enum: [only] }
    }
    if (!isVariants(value)) return value
    const { propertyName } = value.discriminator
    const named = value.oneOf.map((shape) => {
      schemas[shape.title] = shape
      return [String(shape.properties[propertyName]?.const), `#/components/schemas/${shape.title}`]
    })
    return {
      oneOf: named.map(([, $ref]) => ({ $ref })),
      discriminator: { propertyName, mapping: Object.fromEntries(named) },
    }
  })
}

const areaTexts: Readonly<Record<string, string>> = {
  access: 'Who may do what, and why.',
  audit: 'The audit trail.',
  auth: 'Registration, login, and JWTs for tokens.',
  environment: 'The environments of a project, and promotion between them.',
  me: 'The own account: password, address, sessions, second factor.',
  member: 'Members of a workspace, and invites.',
  oidc: 'Identities of CI systems and clusters, which need no stored token.',
  project: 'Projects of a workspace.',
  secret: 'Secrets, their values, versions, files and reminders.',
  'secret-share': 'Links that show secrets to people without an account.',
  service: 'Service accounts and their tokens.',
  sync: 'Pushing secrets to other systems.',
  team: 'Teams of a workspace.',
  tokens: 'API tokens.',
  workspace: 'Workspaces and their policy.',
}

function describeApi(routes: readonly Route[], publicUrl: string, schemas: object): object {
  const paths: Record<string, object> = {}
  const areas = new Set<string>()
  for (const { endpoint } of routes) {
    if (!endpoint) continue
    areas.add(endpoint.area)
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
    servers: [
      { url: publicUrl, description: 'The public address of this service.' },
      { url: '/', description: 'The address that this document was read from.' },
    ],
    tags: [...areas].sort().map((name) => ({ name, description: areaTexts[name] })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'API Key' } },
      schemas,
    },
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
  readonly properties?: Record<string, { readonly description?: string; readonly explode?: boolean }>
  readonly required?: readonly string[]
}

function parametersIn(place: 'path' | 'query', { properties = {}, required = [] }: ObjectSchema = {}): object[] {
  return Object.entries(properties).map(([name, { description, explode, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    description,
    ...(explode && { style: 'form', explode }),
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

const json = (schema: object) => ({ 'application/json': { schema } })

function describeResponses(endpoint: Endpoint): Record<number, object> {
  const { status, response, streams = [], isCached, isSearch, dryRuns } = endpoint
  const { properties = {} }: ObjectSchema = endpoint.query ?? {}
  const headers = {
    ...(isCached && { ETag: etag }),
    ...('cursor' in properties && { 'X-Next-Cursor': nextCursor }),
    ...(isSearch && { 'X-Searched-To': searchedTo }),
  }
  const streamed = Object.fromEntries(streams.map((type) => [type, { schema: { type: 'string' } }]))
  return {
    [status]: {
      description: status === 201 ? 'Created.' : 'Success.',
      headers,
      content: { ...json(streams.length > 0 ? withoutText(response) : response), ...streamed },
    },
    ...(dryRuns && { 200: { description: 'What would be done.', content: json(response) } }),
    ...(isCached && { 304: { description: 'Unchanged since the ETag in If-None-Match.', headers: { ETag: etag } } }),
    ...Object.fromEntries(errorStatuses(endpoint).map((code) => [code, describeError(code, endpoint)])),
  }
}

/** An answer of several content types is text in all but JSON. */
function withoutText(response: TSchema & { readonly anyOf?: readonly { readonly type?: string }[] }): object {
  return response.anyOf?.find(({ type }) => type !== 'string') ?? response
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
