/** Requests generated from an endpoint's schemas: valid, with a single error, and hostile. */
import type { Endpoint } from '@coffer/contract/endpoint'
import { Nothing } from '@coffer/contract/field'
import fc from 'fast-check'
import {
  encodeSegment,
  type Fields,
  nearlyValid,
  type Schema,
  strangePieces,
  toJson,
  unreadable,
  validFor,
  validObject,
} from './hostile-value.ts'

type HostileRequest = { readonly path: string; readonly body: string | undefined }

/** Existing values for path parameters, by name. */
export type World = Readonly<Record<string, readonly string[]>>

const plain = (schema: unknown): Schema => JSON.parse(JSON.stringify(schema))

export const bodySchema = (endpoint: Endpoint) => endpoint.body ?? Nothing

export function validBody(endpoint: Endpoint): fc.Arbitrary<Fields> {
  return validObject(plain(bodySchema(endpoint)))
}

/** Created once: building it takes longer than all its samples. */
const anyJson = fc.json({ noUnicodeString: false })

function bodyText(endpoint: Endpoint): fc.Arbitrary<string | undefined> {
  if (endpoint.method === 'GET') return fc.constant(undefined)
  return fc.oneof(
    { weight: 3, arbitrary: validBody(endpoint).map(toJson) },
    { weight: 8, arbitrary: nearlyValid(plain(bodySchema(endpoint))).map(toJson) },
    { weight: 1, arbitrary: fc.constantFrom(...unreadable, undefined, '', ' ') },
    { weight: 1, arbitrary: anyJson },
  )
}

/** A path whose parameters match the schema. */
export function validPath(endpoint: Endpoint, world: World): fc.Arbitrary<string> {
  return pathWith(endpoint, (name, schema) =>
    fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(...(world[name] ?? [])) },
      { weight: 1, arbitrary: validFor(schema).map((value) => encodeSegment(String(value)).replaceAll('.', '%2E')) },
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
        validFor(schema).map((value) => encodeSegment(String(value))),
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

/** Authorization headers without a valid credential. */
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
