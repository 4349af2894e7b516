/** Requests generated from the OpenAPI description of an operation: valid, nearly valid and hostile. */
import fc from 'fast-check'
import { type Dice, pick } from '../../test/dice.ts'
import {
  encodeSegment,
  nearlyValid,
  type Schema,
  strangePieces,
  toJson,
  unreadable,
  validFor,
} from '../../test/hostile-value.ts'
import type { Operation } from './openapi.ts'

type FuzzRequest = {
  readonly path: string
  readonly body: string | undefined
  readonly headers: Record<string, string>
}
/** Existing values, by the name of a parameter or field. */
export type World = ReadonlyMap<string, readonly string[]>

type Drawn = {
  readonly parameters: readonly string[]
  readonly isHostilePath: boolean
  readonly search: string
  readonly body: unknown
  readonly headers: Record<string, string>
}

const perDraw = 40
/** A body sent unchanged. */
type Verbatim = { readonly verbatim: string | undefined }

export function createFuzzer(dice: Dice): (operation: Operation, world: World) => FuzzRequest {
  const drawn = new Map<Operation, { arbitrary: fc.Arbitrary<Drawn>; queue: Drawn[] }>()

  function draw(operation: Operation): Drawn {
    const known = drawn.get(operation) ?? { arbitrary: requestFor(operation), queue: [] }
    drawn.set(operation, known)
    if (known.queue.length === 0) known.queue = fc.sample(known.arbitrary, { numRuns: perDraw, seed: dice(2 ** 31) })
    const next = known.queue.pop()
    if (!next) throw new Error('fast-check returned no sample')
    return next
  }

  return (operation, world) => {
    const { parameters, isHostilePath, search, body, headers } = draw(operation)
    const pieces = operation.pathParameters.map(({ name }, at) => {
      const known = world.get(name) ?? []
      return known.length > 0 && dice(10) < (isHostilePath ? 5 : 9)
        ? encodeSegment(pick(known, dice))
        : (parameters[at] ?? '')
    })
    const names = operation.pathParameters.map(({ name }) => name)
    const path = operation.path.replace(/\{(\w+)\}/g, (_all, name: string) => pieces[names.indexOf(name)] ?? '')
    return { path: path + useExisting(search, world, dice), body: textOf(body, world, dice), headers }
  }
}

function requestFor({ pathParameters, query, body }: Operation): fc.Arbitrary<Drawn> {
  const piece = (schema: Schema) => validFor(schema).map((value) => encodeSegment(String(value)).replaceAll('.', '%2E'))
  const right = pathParameters.map(({ schema }) => piece(schema))
  const wrong = pathParameters.map(() => fc.constantFrom(...strangePieces))
  const path = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(...right).map((parameters) => ({ parameters, isHostilePath: false })) },
    { weight: 1, arbitrary: fc.tuple(...wrong).map((parameters) => ({ parameters, isHostilePath: true })) },
  )
  const parts = { path, search: searchFor(query), body: body ? bodyFor(body) : fc.constant({ verbatim: undefined }) }
  return fc
    .record({ ...parts, headers: body ? headersWithBody : plainHeaders })
    .map(({ path, ...rest }) => ({ ...path, ...rest }))
}

const plainHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 20, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Record<string, string>>(
      { accept: 'text/html' },
      { 'if-none-match': '*' },
      { 'x-forwarded-for': '203.0.113.9' },
      { 'x-http-method-override': 'DELETE' },
      { cookie: 'coffer_session=x; __proto__=1' },
      { 'x-padding': 'x'.repeat(8_000) },
      { 'accept-encoding': 'br, gzip' },
      { origin: 'https://other.example.test' },
    ),
  },
)
const headersWithBody: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 20, arbitrary: plainHeaders },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=utf-16' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'multipart/form-data; boundary=x' },
      { 'content-type': '' },
      { 'content-encoding': 'gzip' },
    ),
  },
)

function bodyFor(schema: Schema): fc.Arbitrary<unknown> {
  const verbatim = (text: string | undefined): Verbatim => ({ verbatim: text })
  return fc.oneof(
    { weight: 9, arbitrary: validFor(schema) },
    { weight: 8, arbitrary: nearlyValid(schema) },
    { weight: 1, arbitrary: fc.constantFrom(...unreadable, undefined, '', ' ').map(verbatim) },
    { weight: 1, arbitrary: fc.json({ noUnicodeString: false }).map(verbatim) },
  )
}

function searchFor(query: Operation['query']): fc.Arbitrary<string> {
  if (query.length === 0) return fc.constantFrom('', '', '', '?extra=1', '?__proto__[a]=1', '?%zz=%ff')
  const odd = fc.constantFrom(...strangePieces, '', '-1', '0', '201', '1e2', 'Infinity')
  const pairs = query.map(({ name, schema }) =>
    fc
      .oneof(
        { weight: 4, arbitrary: validFor(schema).map((value) => encodeSegment(String(value))) },
        { weight: 1, arbitrary: odd },
      )
      .map((value) => `${name}=${value}`),
  )
  return fc
    .array(fc.oneof(...pairs), { maxLength: 4 })
    .map((chosen) => (chosen.length > 0 ? `?${chosen.join('&')}` : ''))
}

/** Replaces some generated values by existing ones; otherwise every request would end in 404. */
function useExisting(search: string, world: World, dice: Dice): string {
  return search.replace(/([?&])(\w+)=([^&]*)/g, (all, mark: string, name: string) => {
    const known = world.get(name)
    return known && dice(10) < 7 ? `${mark}${name}=${encodeSegment(pick(known, dice))}` : all
  })
}

function textOf(body: unknown, world: World, dice: Dice): string | undefined {
  if (typeof body === 'object' && body !== null && 'verbatim' in body) return (body as Verbatim).verbatim
  return toJson(useExistingFields(body, '', world, dice, 0))
}

function useExistingFields(value: unknown, name: string, world: World, dice: Dice, depth: number): unknown {
  const known = world.get(name)
  if (typeof value === 'string') return known && dice(10) < 8 ? pick(known, dice) : value
  if (depth > 5 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    // Long lists stay as generated.
    return value.length > 20 ? value : value.map((item) => useExistingFields(item, name, world, dice, depth + 1))
  }
  const fields = Object.entries(value)
  return Object.fromEntries(fields.map(([key, field]) => [key, useExistingFields(field, key, world, dice, depth + 1)]))
}
