import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../../test/tier.ts'
import { newKey } from './envelope.ts'
import { newId } from './id.ts'
import { createKeyring, createRootKey, masterWrapKey } from './keyring.ts'
import { isRowGenuine, type MacField, signRow } from './row-mac.ts'

const master = masterWrapKey(newKey())
const root = createRootKey(newId(), master).root
const older = createRootKey(newId(), master).root
const ring = createKeyring(root, [older])
const fields: MacField[] = ['id', 'workspace', 'member', 0, null, Buffer.from([1, 2, 3]), 1_700_000_000_000]
const row = signRow(root, 'member', fields)

test('an unchanged row verifies under every root of the keyring', () => {
  expect(isRowGenuine(ring, 'member', fields, row)).toBe(true)
  expect(isRowGenuine(ring, 'member', [...fields], signRow(older, 'member', fields))).toBe(true)
})

test('a row with any field changed, removed, doubled or moved does not verify', () => {
  const others = fields.flatMap((field, at) => [
    fields.with(at, `${String(field)}x`),
    fields.with(at, field === null ? '' : null),
    fields.toSpliced(at, 1),
    fields.toSpliced(at, 0, field),
    fields.toSpliced(at, 1).toSpliced((at + 1) % (fields.length - 1), 0, field),
  ])
  for (const other of others) expect(isRowGenuine(ring, 'member', other, row), String(other)).toBe(false)
})

test.each<[string, MacField[], MacField[]]>([
  ['null and the empty string', [null], ['']],
  ['null and the string null', [null], ['null']],
  ['null and 0', [null], [0]],
  ['1 and the string 1', [1], ['1']],
  ['a string and its bytes', ['a'], [Buffer.from('a')]],
  ['null and empty bytes', [null], [new Uint8Array()]],
  ['the empty string and empty bytes', [''], [new Uint8Array()]],
  ['neighbouring fields that are equal when joined', ['ab', 'c'], ['a', 'bc']],
  ['one field and two fields', ['abc'], ['abc', '']],
  ['a field and one that ends with a type tag', ['a', 'b'], ['as', 'b']],
  ['1 and -1', [1], [-1]],
])('the MAC distinguishes %s', (_what, one, other) => {
  expect(isRowGenuine(ring, 'token', one, signRow(root, 'token', one))).toBe(true)
  expect(isRowGenuine(ring, 'token', other, signRow(root, 'token', one))).toBe(false)
  expect(isRowGenuine(ring, 'token', one, signRow(root, 'token', other))).toBe(false)
})

test('no two different lists of fields have the same MAC', () => {
  const field = fc.oneof(
    fc.string({ unit: fc.constantFrom('0', 's', 'é'), maxLength: 2 }),
    fc.integer({ min: -2, max: 2 }),
    fc.constant(null),
    fc.uint8Array({ max: 2, maxLength: 2 }),
  )
  const list = fc.array(field, { maxLength: 3 })
  const spelling = (fields: readonly MacField[]) =>
    JSON.stringify(fields.map((value) => (value instanceof Uint8Array ? { bytes: [...value] } : value)))
  fc.assert(
    fc.property(list, list, (one, other) => {
      expect(isRowGenuine(ring, 't', other, signRow(root, 't', one))).toBe(spelling(one) === spelling(other))
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('the MAC of a row in another table is rejected', () => {
  expect(isRowGenuine(ring, 'token', fields, row)).toBe(false)
  expect(isRowGenuine(ring, '', fields, row)).toBe(false)
})

test('a MAC with any bit changed is rejected', () => {
  for (let at = 0; at < row.mac.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const mac = Buffer.from(row.mac)
      mac.writeUInt8(mac.readUInt8(at) ^ (1 << bit), at)
      expect(isRowGenuine(ring, 'member', fields, { ...row, mac })).toBe(false)
    }
  }
})

test('a shorter, longer or empty MAC is rejected', () => {
  const mac = Buffer.from(row.mac)
  for (let length = 0; length < mac.length; length++) {
    expect(isRowGenuine(ring, 'member', fields, { ...row, mac: mac.subarray(0, length) })).toBe(false)
  }
  expect(isRowGenuine(ring, 'member', fields, { ...row, mac: Buffer.concat([mac, Buffer.alloc(1)]) })).toBe(false)
})

test('a MAC verifies only under the root that created it', () => {
  expect(isRowGenuine(ring, 'member', fields, { ...row, macRootId: older.id })).toBe(false)
  expect(isRowGenuine(createKeyring(older, []), 'member', fields, row)).toBe(false)
  for (const macRootId of ['', newId(), '__proto__']) {
    expect(isRowGenuine(ring, 'member', fields, { ...row, macRootId })).toBe(false)
  }
  const impostor = createRootKey(root.id, master).root
  expect(isRowGenuine(ring, 'member', fields, signRow(impostor, 'member', fields))).toBe(false)
})
