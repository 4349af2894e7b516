/** Checks requests to a Google API against its protos: finds the method, and rejects unknown fields. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import protobuf from 'protobufjs'
import type { FakeRequest } from '../fake.ts'

const protos = dirname(createRequire(import.meta.url).resolve('google-proto-files/package.json'))

export type Judged = {
  readonly method: string
  /** Path parameters, such as `parent`. */
  readonly path: Readonly<Record<string, string>>
  readonly problems: readonly string[]
}

type Binding = { verb: string; pattern: RegExp; names: string[]; body: string | undefined; method: protobuf.Method }

/** `services`: full service names by proto file. */
export function googleJudge(services: Readonly<Record<string, string>>): (request: FakeRequest) => Judged | undefined {
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) => join(protos, target)
  root.loadSync(Object.keys(services), { keepCase: false }).resolveAll()
  const bindings = Object.values(services).flatMap((name) =>
    root.lookupService(name).methodsArray.flatMap((method) => bindingsOf(method)),
  )

  return (request) => {
    for (const { verb, pattern, names, body, method } of bindings) {
      const match = request.method === verb ? pattern.exec(request.path) : null
      if (match === null) continue
      const { resolvedRequestType: type } = method
      if (type === null) throw new Error(`${method.name} has no request type`)
      const path = Object.fromEntries(names.map((name, index) => [name, match[index + 1] ?? '']))
      return { method: method.name, path, problems: problemsOf(request, type, path, body) }
    }
    return undefined
  }
}

type Rule = Record<string, unknown>

function bindingsOf(method: protobuf.Method): Binding[] {
  const options: Record<string, unknown>[] = method.parsedOptions ?? []
  const rule = options.map((option) => option['(google.api.http)']).find((found) => found !== undefined) as
    | Rule
    | undefined
  if (rule === undefined) return []
  const more = [rule.additionalBindings ?? rule.additional_bindings ?? []].flat() as Rule[]
  return [rule, ...more].map((one) => {
    const verb = ['get', 'post', 'put', 'patch', 'delete'].find((name) => typeof one[name] === 'string') ?? ''
    const template = String(one[verb])
    const names = [...template.matchAll(/\{([\w.]+)=/g)].map(([, name = '']) => name)
    const source = template
      .replace(/\{[\w.]+=([^}]+)\}/g, (_all, inner: string) => `(${inner})`)
      .replaceAll('.', '\\.')
      .replaceAll('*', '[^/:]+')
    const body = typeof one.body === 'string' ? one.body : undefined
    return { verb: verb.toUpperCase(), pattern: new RegExp(`^${source}$`), names, body, method }
  })
}

/** Query parameters that every Google API accepts. */
const systemParameters = ['$alt', 'alt', 'prettyPrint']

function problemsOf(request: FakeRequest, type: protobuf.Type, path: Record<string, string>, body?: string): string[] {
  const query = Object.fromEntries([...request.query].filter(([name]) => !systemParameters.includes(name)))
  const given = body === undefined ? {} : body === '*' ? request.json : { [body]: request.json }
  if (body === undefined && request.text !== '') return ['a body where none is taken']
  return check({ ...path, ...query, ...(given as object) }, type, type.name)
}

function check(value: unknown, type: protobuf.Type, where: string): string[] {
  if (type.fullName === '.google.protobuf.Timestamp' || type.fullName === '.google.protobuf.Duration') {
    return typeof value === 'string' ? [] : [`${where} is no time`]
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${where} is no object`]
  const fields = new Map(type.fieldsArray.map((field) => [field.name, field.resolve()]))
  const unknown = Object.keys(value).filter((name) => !fields.has(name))
  const missing = type.fieldsArray.filter((field) => isRequired(field) && !Object.hasOwn(value, field.name))
  return [
    ...unknown.map((name) => `${where} has no ${name}`),
    ...missing.map(({ name }) => `${where} lacks ${name}`),
    ...Object.entries(value).flatMap(([name, found]) => checkField(found, fields.get(name), `${where}.${name}`)),
  ]
}

function isRequired(field: protobuf.Field): boolean {
  const options: Record<string, unknown>[] = field.parsedOptions ?? []
  return options.some((option) => option['(google.api.field_behavior)'] === 'REQUIRED')
}

function checkField(value: unknown, field: protobuf.Field | undefined, where: string): string[] {
  if (field === undefined) return []
  if (field.map) return Object.entries(value ?? {}).flatMap(([key, one]) => checkOne(one, field, `${where}[${key}]`))
  if (field.repeated) {
    if (!Array.isArray(value)) return [`${where} is no list`]
    return value.flatMap((one, index) => checkOne(one, field, `${where}[${index}]`))
  }
  return checkOne(value, field, where)
}

function checkOne(value: unknown, { type, resolvedType }: protobuf.Field, where: string): string[] {
  if (resolvedType instanceof protobuf.Type) return check(value, resolvedType, where)
  if (resolvedType instanceof protobuf.Enum)
    return ['string', 'number'].includes(typeof value) ? [] : [`${where} is no enum`]
  const isGood =
    type === 'bool'
      ? typeof value === 'boolean'
      : type === 'string'
        ? typeof value === 'string'
        : type === 'bytes'
          ? typeof value === 'string' && /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value)
          : /^-?\d+$/.test(String(value))
  return isGood ? [] : [`${where} is no ${type}`]
}
