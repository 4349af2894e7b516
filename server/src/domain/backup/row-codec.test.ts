import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import type { Cell } from '../../store/engine/table-reader.ts'
import { createRowEncoder, decodeRows } from './row-codec.ts'

const cell: fc.Arbitrary<Cell> = fc.oneof(
  fc.constant(null),
  fc.maxSafeInteger(),
  fc.constantFrom(0, -1, 2 ** 31, 2 ** 32, -(2 ** 32), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER),
  fc.string({ unit: 'grapheme' }),
  fc.uint8Array(),
)

function encode(rows: readonly Cell[][]): Buffer {
  const encoder = createRowEncoder()
  for (const row of rows) encoder.add(row)
  return encoder.take()
}

const plain = (rows: readonly Cell[][]) =>
  rows.map((row) => row.map((one) => (one instanceof Uint8Array ? { bytes: Buffer.from(one).toString('hex') } : one)))

test('every row comes back as it was', () => {
  const rows = fc
    .integer({ min: 1, max: 5 })
    .chain((columns) =>
      fc.array(fc.array(cell, { minLength: columns, maxLength: columns }), { minLength: 1, maxLength: 20 }),
    )
  fc.assert(
    fc.property(rows, (given) => {
      const decoded = [...decodeRows(encode(given), given[0]?.length ?? 0)]
      expect(plain(decoded)).toEqual(plain(given))
    }),
    { numRuns: times(100, 2_000) },
  )
})

test('a cell larger than the buffer fits, and the encoder starts anew after each piece', () => {
  const large = Buffer.alloc(300_000, 7)
  const encoder = createRowEncoder()
  encoder.add(['first', large])
  expect(plain([...decodeRows(encoder.take(), 2)])).toEqual(plain([['first', large]]))
  expect(encoder.bytes).toBe(0)
  encoder.add([1, null])
  expect([...decodeRows(encoder.take(), 2)]).toEqual([[1, null]])
})

test('bytes that are cut off or of no known kind are refused', () => {
  const bytes = encode([['text', 1, null, Buffer.from('bytes')]])
  for (let length = 1; length < bytes.length; length++) {
    expect(() => [...decodeRows(bytes.subarray(0, length), 4)], `${length} bytes`).toThrow('integrity check')
  }
  expect(() => [...decodeRows(Buffer.from([9]), 1)]).toThrow('integrity check')
})
