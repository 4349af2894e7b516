/** Checks requests and responses against a vendor's own OpenAPI description. */
import { Ajv, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import type { FakeAnswer, FakeRequest } from './fake.ts'

type Parameter = { name: string; in: string; required?: boolean; schema?: { type?: string } }
type Operation = {
  parameters?: (Parameter & { $ref?: string })[]
  requestBody?: { content: Record<string, unknown>; required?: boolean }
  responses: Record<string, { content?: Record<string, unknown>; $ref?: string }>
}
export type Description = { paths: Record<string, Record<string, Operation>> }

export type Judge = {
  /** Violations of a request; empty if there are none. `path` is relative to the description's server. */
  request(request: Pick<FakeRequest, 'method' | 'path' | 'query' | 'text' | 'json'>): string[]
  answer(request: Pick<FakeRequest, 'method' | 'path'>, answer: FakeAnswer): string[]
}

export function judgeBy(description: Description): Judge {
  const ajv = new Ajv({ strict: false, validateSchema: false, coerceTypes: false, allErrors: true })
  formats.default(ajv)
  ajv.addSchema(description, 'api')

  // If two templates match, the one with fewer parameters wins: `public-key` is not the name of a secret.
  const templates = Object.keys(description.paths)
    .map((template) => ({ template, pattern: patternOf(template), count: template.split('{').length }))
    .sort((one, other) => one.count - other.count)

  type Found = { readonly operation: Operation; readonly pointer: readonly string[] } | undefined
  const known = new Map<string, Found>()

  function find({ method, path }: { method: string; path: string }): Found {
    const name = `${method} ${path}`
    if (known.has(name)) return known.get(name)
    const verb = method.toLowerCase()
    const found = templates.find(({ template, pattern }) => pattern.test(path) && description.paths[template]?.[verb])
    const operation = found && description.paths[found.template]?.[verb]
    const result = found && operation && { operation, pointer: ['paths', found.template, verb] }
    known.set(name, result)
    return result
  }

  function resolve<Kind>(value: Kind & { $ref?: string }): Kind {
    if (value.$ref === undefined) return value
    const path = value.$ref.slice(2).split('/')
    return path.reduce<unknown>((node, key) => Reflect.get(Object(node), key), description) as Kind
  }

  const compiled = new Map<string, ValidateFunction>()

  function check(pointer: readonly string[], value: unknown, what: string): string[] {
    const parts = pointer.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1')).map(encodeURIComponent)
    const reference = `api#/${parts.join('/')}`
    const validate = compiled.get(reference) ?? ajv.compile({ $ref: reference })
    compiled.set(reference, validate)
    if (validate(value)) return []
    return (validate.errors ?? []).map(({ instancePath, message }) => `${what}${instancePath} ${message}`)
  }

  return {
    request(request) {
      const found = find(request)
      if (!found) return [`${request.method} ${request.path} is not described`]
      const { operation, pointer } = found
      const parameters = (operation.parameters ?? []).map((parameter) => resolve(parameter))
      const described = new Set(parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name))
      const wrong = [...request.query.keys()]
        .filter((name) => !described.has(name))
        .map((name) => `query ${name} unknown`)
      for (const { name, schema } of parameters.filter((parameter) => parameter.in === 'query')) {
        const value = request.query.get(name)
        if (value !== null && schema?.type === 'integer' && !/^\d+$/.test(value)) wrong.push(`query ${name} no integer`)
      }
      if (operation.requestBody === undefined)
        return request.text === '' ? wrong : [...wrong, 'a body is not described']
      return [
        ...wrong,
        ...check([...pointer, 'requestBody', 'content', 'application/json', 'schema'], request.json, 'body'),
      ]
    },
    answer(request, { status, body }) {
      const found = find(request)
      const declared = found?.operation.responses[String(status)]
      if (!found || !declared) return [`${request.method} ${request.path} answers ${status}, which is not described`]
      if (resolve(declared).content === undefined) return body === undefined ? [] : ['an answer without body has one']
      const pointer = declared.$ref?.slice(2).split('/') ?? [...found.pointer, 'responses', String(status)]
      return check([...pointer, 'content', 'application/json', 'schema'], body, 'answer')
    },
  }
}

const patternOf = (template: string) =>
  new RegExp(`^${template.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`)
