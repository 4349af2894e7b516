/** What a service says of itself in /openapi.json: the requests that it takes and the answers that it gives. */
import { Ajv, type ValidateFunction } from 'ajv'
import addFormatsModule from 'ajv-formats'
import type { Schema } from '../test/hostile-value.ts'
import { type Answer, must } from './ask.ts'

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
  /** By status, then by the type of the content. */
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

/** The operation that a path leads to: fixed words win over parameters, as the standard says. */
export function findOperation(operations: readonly Operation[], method: string, path: string): Operation | undefined {
  const plain = path.split('?')[0] ?? ''
  const matching = operations.filter((operation) => operation.method === method && operation.pattern.test(plain))
  return matching.sort((a, b) => a.pathParameters.length - b.pathParameters.length)[0]
}

/** What is wrong with an answer to a request for this operation, or for none. */
export function findViolation(operation: Operation | undefined, { status, text, headers }: Answer): string | undefined {
  if (status >= 500) return `answers ${status}: ${text}`
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  if (!operation)
    return [400, 401, 404, 405].includes(status) && isMessage(text)
      ? undefined
      : `is no route, and answers ${status}: ${text}`
  const contents = operation.answers.get(status)
  if (!contents) return `answers ${status}, which it does not declare: ${text}`
  if (status === 304) return text === '' ? undefined : 'answers 304 with a body'
  if (!contents.has(type)) return `answers ${status} as ${type || 'nothing'}, which it does not declare`
  const validate = contents.get(type)
  if (!validate || type !== 'application/json') return undefined
  try {
    return validate(JSON.parse(text))
      ? undefined
      : `answers ${status} against its schema: ${JSON.stringify(validate.errors)}`
  } catch {
    return `answers ${status} with what is no JSON`
  }
}

function isMessage(text: string): boolean {
  try {
    return typeof JSON.parse(text).message === 'string'
  } catch {
    return false
  }
}
