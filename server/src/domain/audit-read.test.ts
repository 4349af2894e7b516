import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newId } from '../crypto/id.ts'
import { canonicalEntry, emptyHash, hashEntry } from '../store/audit-entry.ts'
import { composeReads, expandReads, sharedFields } from '../store/audit-read.ts'
import { readDetails } from './audit-read.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  // Halves of surrogate pairs, quotes, control characters, what looks like JSON.
  fc
    .array(
      fc.constantFrom('\ud800', '\udfff', '"', '\\', '\u0000', '\u2028', '\n', '],[', '"]}', 'null', '\u007f', 'ÿ'),
    )
    .map((parts) => parts.join('')),
)
const maybe = fc.option(text)
const read = fc.record({
  actorType: text,
  actorId: text,
  actorName: text,
  action: text,
  entityType: text,
  entityId: text,
  entityName: text,
  projectId: maybe,
  environmentId: maybe,
  ip: text,
  userAgent: text,
  outcome: text,
  keys: fc.array(text),
  at: fc.integer({ min: 0, max: 8_640_000_000_000_000 }),
  requestId: fc.stringMatching(/^[A-Za-z0-9_-]{12}-[0-9a-z]{1,6}$/),
})

test('reads that were recorded together are those that were meant, each hashed as if it stood alone', () => {
  const property = fc.property(fc.array(read, { minLength: 1, maxLength: 5 }), text, (reads, chainId) => {
    // Some share all that can be shared.
    const all = [...reads, ...reads.slice(0, 1)].map((fields) => ({ ...fields, id: newId() }))
    const head = { sequence: 41, hash: emptyHash }
    const row = composeReads(
      chainId,
      head,
      all.map(({ id, at, requestId, keys, ...fields }) => {
        return { id, at, requestId, shared: sharedFields(fields, readDetails({ keys }).text) }
      }),
    )
    let previous: string = head.hash
    const expected = all.map(({ keys, ...fields }, index) => {
      const details = JSON.stringify({ after: { keys } })
      const entry = { ...fields, chainId, sequence: head.sequence + 1 + index, details }
      previous = hashEntry(previous, canonicalEntry(entry))
      return { ...entry, hash: previous }
    })
    expect(row).toMatchObject({ firstSequence: 42, lastSequence: 41 + all.length, hash: previous })
    expect(expandReads(row)).toEqual(expected)
    // As a database keeps it: nothing in it is changed by being written as UTF-8.
    expect(row.entries.isWellFormed()).toBe(true)
    expect(row.entries).not.toContain('\u0000')
  })
  fc.assert(property, { numRuns: 500 })
})
