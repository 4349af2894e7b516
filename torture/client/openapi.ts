/** Operations, requests and responses as described in /openapi.json. */
import { Ajv, type ValidateFunction } from 'ajv'
import addFormatsModule from 'ajv-formats'
import type { Schema } from '../../test/hostile-value.ts'
import { type Answer, must } from '../load/ask.ts'

type Content = Readonly<Record<string, { readonly schema?: Schema }>>
type Parameter = { readonly name: string; readonly in: string; readonly schema: Schema }
type Described = {
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}
type Description = { readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>> }

export type Operation = {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly pathParameters: readonly Parameter[]
  readonly query: readonly Parameter[]
  readonly body: Schema | undefined
  readonly pattern: RegExp
  /** By status, then by content type. */
  readonly answers: ReadonlyMap<number, ReadonlyMap<string, ValidateFunction | undefined>>
}

const addFormats = addFormatsModule as unknown as (ajv: Ajv, formats: string[]) => Ajv

export async function readOperations(url: string): Promise<Operation[]> {
  const { paths } = await must<Description>(url, 'GET', '/openapi.json')
  const ajv = addFormats(new Ajv({ strict: false }), ['date-time'])
  const contentOf = (content: Content = {}) =>
    new Map(Object.entries(content).map(([type, { schema }]) => [type, schema && ajv.compile(schema)]))
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]): Operation => {
      const { parameters = [], requestBody, responses } = described
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        pathParameters: parameters.filter((parameter) => parameter.in === 'path'),
        query: parameters.filter((parameter) => parameter.in === 'query'),
        body: requestBody?.content['application/json']?.schema,
        pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]*')}/?$`),
        answers: new Map(
          Object.entries(responses).map(([status, { content }]) => [Number(status), contentOf(content)]),
        ),
      }
    }),
  )
}

/** The operation of a path: fixed segments win over parameters, as in the OpenAPI standard. */
export function findOperation(operations: readonly Operation[], method: string, path: string): Operation | undefined {
  const plain = path.split('?')[0] ?? ''
  const matching = operations.filter((operation) => operation.method === method && operation.pattern.test(plain))
  return matching.sort((a, b) => a.pathParameters.length - b.pathParameters.length)[0]
}

/** The way in which a response violates the description, if any. */
export function findViolation(operation: Operation | undefined, { status, text, headers }: Answer): string | undefined {
  if (status >= 500) return `returned ${status}: ${text}`
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  if (!operation)
    return [400, 401, 404, 405].includes(status) && isMessage(text)
      ? undefined
      : `is not a route, but returned ${status}: ${text}`
  const contents = operation.answers.get(status)
  if (!contents) return `returned ${status}, which is not declared: ${text}`
  if (status === 304) return text === '' ? undefined : 'returned 304 with a body'
  if (!contents.has(type)) return `returned ${status} as ${type || 'no content type'}, which is not declared`
  const validate = contents.get(type)
  if (!validate || type !== 'application/json') return undefined
  try {
    return validate(JSON.parse(text))
      ? undefined
      : `returned ${status}, which violates the schema: ${JSON.stringify(validate.errors)}`
  } catch {
    return `returned ${status} with invalid JSON`
  }
}

function isMessage(text: string): boolean {
  try {
    return typeof JSON.parse(text).message === 'string'
  } catch {
    return false
  }
}
