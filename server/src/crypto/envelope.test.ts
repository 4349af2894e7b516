import { createCipheriv, createHmac, randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../test/tier.ts'
import { asKey, associatedData, deriveKey, keyVersionOf, lengthPrefixed, newKey, open, seal } from './envelope.ts'

const key = asKey(newKey())
const places = ['value', 'workspace', 'project', 'environment', 'secret', '7', 'field', '1']
const aad = associatedData('value', ...places.slice(1))
const plaintext = Buffer.from('postgres://app:s3cr3t@db/app')
const record = seal(key, 3, aad, plaintext)
const integrity = expect.objectContaining({ code: 'integrity' })
const overheadBytes = 33

const flipped = (bytes: Uint8Array, at: number, bit: number) => {
  const copy = Buffer.from(bytes)
  copy.writeUInt8(copy.readUInt8(at) ^ (1 << bit), at)
  return copy
}

test('a sealed record opens to the same bytes, for any plaintext', () => {
  const bytes = fc.uint8Array({ maxLength: 300 })
  fc.assert(
    fc.property(bytes, bytes, fc.integer({ min: 0, max: 0x7fff_ffff }), (text, place, version) => {
      const sealed = seal(key, version, place, text)
      expect(sealed.length).toBe(text.length + overheadBytes)
      expect(keyVersionOf(sealed)).toBe(version)
      expect(open(key, place, sealed).equals(text)).toBe(true)
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('an impossible key version is rejected before any key is looked up', () => {
  const sealed = seal(key, 0x8000_0000, Buffer.from('place'), Buffer.from('text'))
  expect(() => keyVersionOf(sealed)).toThrow(expect.objectContaining({ code: 'integrity' }))
  expect(() => open(key, Buffer.from('place'), sealed)).toThrow(expect.objectContaining({ code: 'integrity' }))
})

test('a record opens from the middle of a larger buffer', () => {
  const larger = Buffer.concat([randomBytes(11), record, randomBytes(5)])
  const view = new Uint8Array(larger.buffer, larger.byteOffset + 11, record.length)
  expect(open(key, aad, view).equals(plaintext)).toBe(true)
  expect(keyVersionOf(view)).toBe(3)
})

test('a record reveals nothing of its plaintext, and sealing twice gives different records', () => {
  expect(record.includes(plaintext.subarray(0, 4))).toBe(false)
  const nonces = Array.from({ length: 5_000 }, () => seal(key, 1, aad, plaintext).subarray(5, 17).toString('hex'))
  expect(new Set(nonces).size).toBe(nonces.length)
})

describe('opening fails with an integrity error and no plaintext for', () => {
  const positions = Array.from({ length: record.length }, (_, at) => at)

  test.each(positions)('any bit of byte %i flipped', (at) => {
    for (let bit = 0; bit < 8; bit++) expect(() => open(key, aad, flipped(record, at, bit))).toThrow(integrity)
  })

  test('every truncated record, at either end', () => {
    for (const at of positions) {
      expect(() => open(key, aad, record.subarray(0, at))).toThrow(integrity)
      expect(() => open(key, aad, record.subarray(record.length - at))).toThrow(integrity)
    }
  })

  test('every longer record, at either end and in the middle', () => {
    for (let more = 1; more <= 40; more++) {
      const extra = Buffer.alloc(more)
      expect(() => open(key, aad, Buffer.concat([record, extra]))).toThrow(integrity)
      expect(() => open(key, aad, Buffer.concat([extra, record]))).toThrow(integrity)
      expect(() => open(key, aad, Buffer.concat([record.subarray(0, 17), extra, record.subarray(17)]))).toThrow(
        integrity,
      )
    }
  })

  test.each([4, 8, 12, 13, 14, 15])('a tag of %i bytes, truncated or created that short', (tagBytes) => {
    expect(() => open(key, aad, record.subarray(0, record.length - 16 + tagBytes))).toThrow(integrity)
    const header = record.subarray(0, 5)
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    cipher.setAAD(Buffer.concat([header, aad]))
    const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()])
    const short = Buffer.concat([header, nonce, ciphertext, cipher.getAuthTag()])
    expect(() => open(key, aad, short)).toThrow(integrity)
  })

  test('another key', () => {
    expect(() => open(asKey(newKey()), aad, record)).toThrow(integrity)
  })

  test('every bit of the associated data flipped', () => {
    for (let at = 0; at < aad.length; at++) {
      for (let bit = 0; bit < 8; bit++) expect(() => open(key, flipped(aad, at, bit), record)).toThrow(integrity)
    }
  })

  test('associated data with any part changed, removed, doubled, emptied or moved', () => {
    const others = places.flatMap((part, at) => [
      places.with(at, `${part}x`),
      places.with(at, part.slice(1)),
      places.with(at, ''),
      places.toSpliced(at, 1),
      places.toSpliced(at, 0, part),
      places.toSpliced(at, 1).toSpliced((at + 1) % (places.length - 1), 0, part),
    ])
    for (const [purpose = '', ...parts] of others) {
      expect(() => open(key, associatedData(purpose, ...parts), record), parts.join()).toThrow(integrity)
    }
    expect(() => open(key, Buffer.alloc(0), record)).toThrow(integrity)
  })

  test.each([0, 2, 0x80, 0xff])('the unknown format %i', (format) => {
    const other = Buffer.from(record)
    other.writeUInt8(format, 0)
    expect(() => open(key, aad, other)).toThrow(integrity)
    expect(() => keyVersionOf(other)).toThrow(integrity)
  })

  test('an empty record', () => {
    expect(() => open(key, aad, new Uint8Array())).toThrow(integrity)
    expect(() => keyVersionOf(new Uint8Array())).toThrow(integrity)
  })
})

describe('associated data', () => {
  test('differs for parts that are equal when joined', () => {
    const lists = [['ab', 'c'], ['a', 'bc'], ['abc'], ['abc', ''], ['', 'abc'], ['a', 'b', 'c'], ['ab', '', 'c']]
    const spellings = lists.map((parts) => lengthPrefixed(parts).toString('hex'))
    expect(new Set(spellings).size).toBe(lists.length)
    expect(associatedData('ab', 'c').equals(associatedData('a', 'bc'))).toBe(false)
  })

  test('differs for any two different lists of parts', () => {
    const parts = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\0', 'é'), maxLength: 3 }), { maxLength: 3 })
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const areEqual = one.length === other.length && one.every((part, at) => part === other[at])
        expect(lengthPrefixed(one).equals(lengthPrefixed(other))).toBe(areEqual)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('is each part in UTF-8 or as it is, after its length in four bytes', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '\0', 'é', '語', '\ud83d', '\ude00'), maxLength: 300 })
    const parts = fc.array(fc.oneof(text, fc.string({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 })))
    const expected = (list: readonly (string | Uint8Array)[]) =>
      list.flatMap((part) => {
        const bytes = [...Buffer.from(part)]
        return [0, 0, bytes.length >> 8, bytes.length & 0xff, ...bytes]
      })
    fc.assert(
      fc.property(parts, (list) => {
        expect([...lengthPrefixed(list)]).toEqual(expected(list))
      }),
      { numRuns: times(200, 2_000) },
    )
    const long = ['x'.repeat(70_000), 'y']
    const bytes = lengthPrefixed(long)
    expect([bytes.readUInt32BE(0), bytes.readUInt32BE(70_004), bytes.length]).toEqual([70_000, 1, 70_009])
  })

  test('never mistakes a part for the length of the next', () => {
    const length = Buffer.from([0, 0, 0, 1]).toString('latin1')
    expect(lengthPrefixed(['', 'a']).equals(lengthPrefixed([`${length}a`]))).toBe(false)
  })
})

describe('keys', () => {
  test.each([0, 16, 24, 31, 33, 64])('of %i bytes are refused', (length) => {
    expect(() => asKey(Buffer.alloc(length, 1))).toThrow(integrity)
  })

  test('are derived by HKDF-SHA-256, one for each purpose', () => {
    const bytes = newKey()
    const derived = deriveKey(bytes, 'wrap').export().toString('hex')
    const pseudoRandom = createHmac('sha256', Buffer.alloc(32)).update(bytes).digest()
    const expected = createHmac('sha256', pseudoRandom)
      .update('coffer/wrap/v1')
      .update(Buffer.from([1]))
      .digest('hex')
    expect(derived).toBe(expected)
    expect(deriveKey(bytes, 'token').export().toString('hex')).not.toBe(derived)
    expect(deriveKey(newKey(), 'wrap').export().toString('hex')).not.toBe(derived)
    expect(derived).not.toBe(bytes.toString('hex'))
  })

  test('are not printed by inspect, JSON or string conversion', () => {
    const bytes = newKey()
    const printed = [
      inspect(asKey(bytes), { depth: 9, showHidden: true }),
      JSON.stringify(asKey(bytes)),
      `${asKey(bytes)}`,
    ]
    for (const text of printed) {
      expect(text).not.toContain(bytes.toString('hex'))
      expect(text).not.toContain(bytes.toString('base64'))
      expect(text).not.toContain(inspect(bytes).slice(8, 40))
    }
  })
})
