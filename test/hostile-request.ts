/** Requests made from the schemas of an endpoint: right ones, ones with a single thing wrong, and hostile ones. */
import type { Endpoint } from '@coffer/contract/endpoint'
import { Nothing } from '@coffer/contract/field'
import fc from 'fast-check'

/** As much of JSON schema as the contract uses. */
type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly minItems?: number
  readonly pattern?: string
  readonly format?: string
  readonly description?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minProperties?: number
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}
type Fields = Readonly<Record<string, unknown>>

export type HostileRequest = { readonly path: string; readonly body: string | undefined }

/** Real values that a part of a path may name, by the parameter's name. */
export type World = Readonly<Record<string, readonly string[]>>

const plain = (schema: unknown): Schema => JSON.parse(JSON.stringify(schema))

export const bodySchema = (endpoint: Endpoint) => endpoint.body ?? Nothing

/** A number that JavaScript would not write as it stands: kept in a string until the body is text. */
const verbatim = (text: string) => `verbatim:${text}:verbatim`

export function toJson(value: unknown): string {
  return (JSON.stringify(value) ?? 'null').replace(/"verbatim:(.*?):verbatim"/g, '$1')
}

const nested = (depth: number) => Array.from({ length: depth }).reduce<unknown>((inner) => [inner], 'x')

const strangeTexts = [
  '',
  ' ',
  '\t\n',
  'x'.repeat(5_000),
  '\ud800',
  'a\udc00b',
  '\u0000',
  'a\u0000b',
  '\u0007\u001b[2J',
  '\u202egnp.exe',
  '\ufeff',
  '😀',
  '😀'.repeat(65),
  'e\u0301'.repeat(60),
  '__proto__',
  'constructor',
  "'; drop table account; --",
  '../../etc/passwd',
  '%00',
  '{{7*7}}',
  'null',
  '00000000-0000-0000-0000-000000000000',
  '2016-12-31T23:59:60Z',
  '0000-01-01T00:00:00Z',
]

const strangeValues: readonly unknown[] = [
  ...strangeTexts,
  null,
  true,
  false,
  0,
  -1,
  0.5,
  verbatim('-0'),
  verbatim('1e999'),
  verbatim('-1e999'),
  verbatim('1e-999'),
  verbatim('9007199254740993'),
  verbatim('123456789012345678901234567890'),
  [],
  [[]],
  [null],
  [{}],
  {},
  nested(200),
  { length: verbatim('1e9') },
  Object.fromEntries([['__proto__', { isAdmin: true }]]),
  { constructor: { prototype: { isAdmin: true } } },
  { toString: 'x', valueOf: null },
  Array.from({ length: 1_500 }, () => '00000000-0000-0000-0000-000000000000'),
]
const strange = fc.constantFrom(...strangeValues)

/** Names that no body has; those that every object inherits are among them. */
export const unknownNames = [
  'extra',
  'Name',
  'name ',
  '',
  '😀',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'n'.repeat(200),
]
/** Names that a parser may treat in its own way. */
export const prototypeNames = ['__proto__', 'constructor']

function texts(schema: Schema): fc.Arbitrary<string> {
  const { minLength = 0, maxLength = 1_000 } = schema
  const pattern = schema.pattern === undefined ? undefined : new RegExp(schema.pattern, 'u')
  if (schema.format === 'date-time') {
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-01-01') })
      .map((date) => date.toISOString())
  }
  if (schema.description?.startsWith('base64url')) {
    const [least, most] = [minLength, maxLength].map((length) => Math.floor((length * 3) / 4))
    return fc
      .uint8Array({ minLength: least ?? 0, maxLength: most ?? 0 })
      .map((bytes) => Buffer.from(bytes).toString('base64url'))
  }
  const slug = fc.stringMatching(/^[a-z0-9-]{2,48}$/)
  return fc
    .oneof(
      slug,
      fc.uuid(),
      fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, 300) }),
      fc.tuple(slug, slug).map((parts) => parts.join('@')),
      fc.ipV4(),
      slug.map((host) => `https://${host}.example.com`),
      fc.string({ unit: fc.constantFrom('a', 'Z', '0', ' ', '_', '-'), minLength, maxLength }),
    )
    .filter((text) => [...text].length >= minLength && [...text].length <= maxLength && (pattern?.test(text) ?? true))
}

export function validFor(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(validFor))
  if (Array.isArray(schema.type)) return fc.oneof(fc.constant(null), texts(schema))
  // Accepted whatever it is, and ignored.
  if (schema.type === undefined) return fc.constantFrom(null, 1, 'any text', [], {})
  // A text or null.
  if (typeof schema.type !== 'string') return fc.oneof(texts(schema), fc.constant(null))
  switch (schema.type) {
    case 'string':
      return texts(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000 })
    case 'boolean':
      return fc.boolean()
    case 'array':
      return fc.array(validFor(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: 4 })
    case 'object':
      return validObject(schema)
    default:
      throw new Error(`no value is known for ${JSON.stringify(schema)}`)
  }
}

function validObject({ properties = {}, required = [], minProperties = 0 }: Schema): fc.Arbitrary<Fields> {
  const fields = Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, validFor(inner)]))
  return fc
    .record(fields, { requiredKeys: [...required] })
    .map((value) => ({ ...value }))
    .filter((value) => Object.keys(value).length >= minProperties)
}

/** A right object with one thing wrong, at the top or further in. */
function nearlyValid(schema: Schema): fc.Arbitrary<unknown> {
  const names = Object.keys(schema.properties ?? {})
  const inner = Object.entries(schema.properties ?? {}).filter(([, field]) => field.type === 'object')
  const base = validObject(schema)
  const extraName = fc.constantFrom(...unknownNames, ...prototypeNames)
  const withExtra = fc
    .tuple(base, extraName, strange)
    .map(([value, name, extra]) => Object.fromEntries([...Object.entries(value), [name, extra]]))
  if (names.length === 0) return fc.oneof(withExtra, strange)
  const name = fc.constantFrom(...names)
  const replaced = fc.tuple(base, name, strange).map(([value, key, wrong]) => ({ ...value, [key]: wrong }))
  const missing = fc
    .tuple(base, name)
    .map(([value, key]) => Object.fromEntries(Object.entries(value).filter(([other]) => other !== key)))
  const deeper = inner.map(([key, field]) =>
    fc.tuple(base, nearlyValid(field)).map(([value, wrong]) => ({ ...value, [key]: wrong })),
  )
  return fc.oneof(replaced, replaced, missing, withExtra, strange, ...deeper)
}

const unreadable = ['{', '{"name":', '[', 'nul', '{"name":"a"}}', "{'name':'a'}", '{"a":1,}', '\u0000', '\ufeff', '//']

export function validBody(endpoint: Endpoint): fc.Arbitrary<Fields> {
  return validObject(plain(bodySchema(endpoint)))
}

function bodyText(endpoint: Endpoint): fc.Arbitrary<string | undefined> {
  if (endpoint.method === 'GET') return fc.constant(undefined)
  return fc.oneof(
    { weight: 3, arbitrary: validBody(endpoint).map(toJson) },
    { weight: 8, arbitrary: nearlyValid(plain(bodySchema(endpoint))).map(toJson) },
    { weight: 1, arbitrary: fc.constantFrom(...unreadable, undefined, '', ' ') },
    { weight: 1, arbitrary: fc.json({ noUnicodeString: false }) },
  )
}

/** Spelled as in a URL; `.` and `..` alone would be taken out of it by the client. */
const spelled = (text: string) => encodeURIComponent(text.toWellFormed())
const strangePieces = [
  ...strangeTexts.filter((text) => text !== '').map(spelled),
  '%zz',
  '%',
  '%ff',
  '%ED%A0%80',
  '%2F',
  '%2e%2e%2f',
  '...',
  '*',
  ':ws',
  'UPPER',
  'a',
  'a'.repeat(49),
  'a'.repeat(5_000),
]

/** The path with parameters that the endpoint's schema accepts. */
export function validPath(endpoint: Endpoint, world: World): fc.Arbitrary<string> {
  return pathWith(endpoint, (name, schema) =>
    fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(...(world[name] ?? [])) },
      { weight: 1, arbitrary: validFor(schema).map((value) => spelled(String(value)).replaceAll('.', '%2E')) },
    ),
  )
}

function hostilePath(endpoint: Endpoint, world: World): fc.Arbitrary<string> {
  return pathWith(endpoint, (name) => fc.constantFrom(...(world[name] ?? []), ...strangePieces))
}

function pathWith(endpoint: Endpoint, piece: (name: string, schema: Schema) => fc.Arbitrary<string>) {
  const parameters = plain(endpoint.params ?? Nothing).properties ?? {}
  const parts = endpoint.path.split('/').map((part): fc.Arbitrary<string> => {
    const name = part.startsWith(':') ? part.slice(1) : undefined
    return name === undefined ? fc.constant(part) : piece(name, parameters[name] ?? {})
  })
  return fc.tuple(...parts).map((chosen) => chosen.join('/'))
}

function query(endpoint: Endpoint): fc.Arbitrary<string> {
  const fields = Object.entries(plain(endpoint.query ?? Nothing).properties ?? {})
  const pairs = fields.map(([name, schema]) =>
    fc
      .oneof(
        validFor(schema).map((value) => spelled(String(value))),
        fc.constantFrom(...strangePieces, '', '-1', '0', '201', '1e2', '0x10', '1.5', 'Infinity', 'NaN'),
      )
      .map((value) => `${name}=${value}`),
  )
  const stray = fc.constantFrom(
    'extra=1',
    '__proto__=1',
    '__proto__[a]=1',
    'constructor=x',
    '=',
    '&&',
    '%zz=%zz',
    'a[]=1',
  )
  return fc
    .array(fc.oneof(...pairs, stray), { maxLength: 4 })
    .map((chosen) => (chosen.length ? `?${chosen.join('&')}` : ''))
}

export function hostileRequest(endpoint: Endpoint, world: World): fc.Arbitrary<HostileRequest> {
  const path = fc.oneof(
    { weight: 5, arbitrary: validPath(endpoint, world) },
    { weight: 1, arbitrary: hostilePath(endpoint, world) },
  )
  return fc
    .record({ path, search: query(endpoint), body: bodyText(endpoint) })
    .map(({ path, search, body }) => ({ path: path + search, body }))
}

/** What stands in an Authorization header without being a living credential. */
export const deadCredentials = [
  '',
  'Bearer',
  'Bearer ',
  'Basic b3duZXI6cGFzc3dvcmQ=',
  'bearer\tx',
  'Bearer x',
  'Bearer x y',
  `Bearer ${'x'.repeat(8_000)}`,
  `Bearer cof_live_${'A'.repeat(36)}`,
  `Bearer cof_sess_${'A'.repeat(36)}`,
  `Bearer cof_live_${'A'.repeat(35)}`,
  'Bearer cof_live_\u00e9\u00fc',
  'Bearer eyJ',
  'Bearer ey..',
  `Bearer ey${'.'.repeat(4_000)}`,
  `Bearer ${[{ alg: 'none' }, { sub: 'x', exp: 9e9 }].map(encoded).join('.')}.`,
  `Bearer ${[{ alg: 'EdDSA', kid: '__proto__' }, { exp: 9e9 }].map(encoded).join('.')}.AAAA`,
  `Bearer ${[{ alg: 'EdDSA', kid: null }, null].map(encoded).join('.')}.AAAA`,
  `Bearer ${['[', '{'].map((text) => Buffer.from(text).toString('base64url')).join('.')}.AAAA`,
]

function encoded(part: unknown): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
