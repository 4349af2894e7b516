/** Values generated from a JSON schema: valid, with a single error, and hostile. */
import fc from 'fast-check'

/** The subset of JSON Schema that the contract uses. */
export type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
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
export type Fields = Readonly<Record<string, unknown>>

/** A number literal that JSON.stringify would not write: a string until the body becomes text. */
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

/** Names that no body has, including those that every object inherits. */
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
/** Names that a parser may treat specially. */
export const prototypeNames = ['__proto__', 'constructor']

const slug = fc.stringMatching(/^[a-z0-9-]{2,48}$/)

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
  const either = schema.anyOf ?? schema.oneOf
  if (either) return fc.oneof(...either.map(validFor))
  if (Array.isArray(schema.type)) return fc.oneof(fc.constant(null), texts(schema))
  // Any value is accepted and ignored.
  if (schema.type === undefined) return fc.constantFrom(null, 1, 'any text', [], {})
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
      throw new Error(`no generator for ${JSON.stringify(schema)}`)
  }
}

export function validObject({ properties = {}, required = [], minProperties = 0 }: Schema): fc.Arbitrary<Fields> {
  const fields = Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, validFor(inner)]))
  return fc
    .record(fields, { requiredKeys: [...required] })
    .map((value) => ({ ...value }))
    .filter((value) => Object.keys(value).length >= minProperties)
}

/** A valid object with one error, at the top level or nested. */
export function nearlyValid(schema: Schema): fc.Arbitrary<unknown> {
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

export const unreadable = [
  '{',
  '{"name":',
  '[',
  'nul',
  '{"name":"a"}}',
  "{'name':'a'}",
  '{"a":1,}',
  '\u0000',
  '\ufeff',
  '//',
]

/** Percent-encoded. Clients remove a path segment that is only `.` or `..`. */
export const encodeSegment = (text: string) => encodeURIComponent(text.toWellFormed())
export const strangePieces = [
  ...strangeTexts.filter((text) => text !== '').map(encodeSegment),
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
