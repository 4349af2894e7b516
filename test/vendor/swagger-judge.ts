/** Checks requests and the responses of a fake against a vendor's Swagger 2.0 description. */
import { Ajv, type ValidateFunction } from 'ajv'
import type { FakeAnswer, FakeRequest } from './fake.ts'

type Schema = Record<string, unknown>
type Parameter = { name: string; in: string; required?: boolean; schema?: Schema; type?: string; enum?: string[] }
type Operation = { parameters?: Parameter[]; responses: Record<string, { schema?: Schema }> }
export type Swagger = { basePath: string; paths: Record<string, Record<string, unknown>> }

/** Forbids fields that the description does not name. */
function withoutExtraFields(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(withoutExtraFields)
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, withoutExtraFields(value)]))
  const isPlain = 'properties' in schema && !('additionalProperties' in schema)
  return isPlain ? { ...inner, additionalProperties: false } : inner
}

export function swaggerJudge({ basePath, paths }: Swagger) {
  const ajv = new Ajv({ strict: false, validateFormats: false })
  const compiled = new Map<Schema, ValidateFunction>()

  const templates = Object.entries(paths).map(([template, operations]) => ({
    pattern: new RegExp(`^${basePath}${template.replace(/\{[^}]+\}/g, '[^/]+')}$`),
    operations,
  }))

  function findOperation({ method, path }: FakeRequest) {
    for (const { pattern, operations } of templates) {
      const operation = operations[method.toLowerCase()] as Operation | undefined
      if (operation !== undefined && pattern.test(path)) {
        const shared = (operations.parameters ?? []) as Parameter[]
        return { operation, parameters: [...shared, ...(operation.parameters ?? [])] }
      }
    }
    return undefined
  }

  function problemsOf(schema: Schema, value: unknown): string[] {
    const validate = compiled.get(schema) ?? ajv.compile(withoutExtraFields(schema) as Schema)
    compiled.set(schema, validate)
    return validate(value) ? [] : [ajv.errorsText(validate.errors)]
  }

  return {
    request(request: FakeRequest): string[] {
      const found = findOperation(request)
      if (found === undefined) return [`${request.method} ${request.path} is not described`]
      const query = found.parameters.filter((parameter) => parameter.in === 'query')
      const unknown = [...request.query.keys()].filter((name) => !query.some((parameter) => parameter.name === name))
      const wrong = query.filter(({ name, enum: allowed }) => {
        const value = request.query.get(name)
        return value !== null && allowed !== undefined && !allowed.includes(value)
      })
      const body = found.parameters.find((parameter) => parameter.in === 'body')
      const problems = body?.schema === undefined || request.text === '' ? [] : problemsOf(body.schema, request.json)
      const isStray = body === undefined && request.text !== ''
      return [
        ...unknown.map((name) => `the parameter ${name} is not described`),
        ...wrong.map(({ name }) => `the parameter ${name} has another value than those described`),
        ...problems,
        ...(isStray ? ['a body where none is described'] : []),
      ].map((problem) => `${request.method} ${request.path}: ${problem}`)
    },
    answer(request: FakeRequest, { status, body }: FakeAnswer): string[] {
      const responses = findOperation(request)?.operation.responses ?? {}
      const response = responses[status] ?? (status >= 400 ? responses.default : undefined)
      if (response === undefined) return [`${request.method} ${request.path}: ${status} is not described`]
      const problems = response.schema === undefined || status >= 400 ? [] : problemsOf(response.schema, body)
      return problems.map((problem) => `the fake’s answer to ${request.method} ${request.path}: ${problem}`)
    },
  }
}
