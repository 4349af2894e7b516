import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../test/any-character.ts'
import { times } from '../../../../test/tier.ts'
import { newId } from '../../crypto/id.ts'
import { type BatchRow, composeBatch, expandBatch, linksOfBatch, sharedFields } from '../../store/audit/batch.ts'
import { canonicalEntry, emptyHash, hashEntry } from '../../store/audit/entry.ts'

const text = fc.oneof(
  fc.string({ unit: anyCharacter }),
  // Lone surrogates, quotes, control characters, and text that looks like JSON.
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
  hasOwnDetails: fc.boolean(),
  at: fc.integer({ min: 0, max: 8_640_000_000_000_000 }),
  requestId: fc.stringMatching(/^[A-Za-z0-9_-]{12}-[0-9a-z]{1,6}$/),
})

const head = { sequence: 41, hash: emptyHash }

type Read = typeof read extends fc.Arbitrary<infer Fields> ? Fields : never

function compose(reads: readonly Read[], chainId: string) {
  // The first read is repeated, so that some entries share all their shared fields.
  const all = [...reads, ...reads.slice(0, 1)].map((fields) => ({ ...fields, id: newId() }))
  const row = composeBatch(
    chainId,
    head,
    all.map(({ id, at, requestId, keys, hasOwnDetails, ...fields }) => {
      const details = JSON.stringify({ after: { keys } })
      return hasOwnDetails
        ? { id, at, requestId, shared: sharedFields(fields), details, lists: [] }
        : { id, at, requestId, shared: sharedFields(fields, JSON.stringify(details)), lists: [] }
    }),
  )
  const recorded = all.map(({ keys, hasOwnDetails: _, ...fields }, index) => {
    const details = JSON.stringify({ after: { keys } })
    return { ...fields, chainId, sequence: head.sequence + 1 + index, details }
  })
  return { row, recorded }
}

const somethingRead = fc.array(read, { minLength: 1, maxLength: 5 })

test('a batch row expands to the recorded entries, and is one link of the chain', () => {
  const property = fc.property(somethingRead, text, (reads, chainId) => {
    const { row, recorded } = compose(reads, chainId)
    expect(row).toMatchObject({ firstSequence: 42, lastSequence: 41 + recorded.length, previousHash: emptyHash })
    const expected = recorded.map((entry) => ({ ...entry, hash: row.hash }))
    expect(expandBatch(row)).toEqual(expected)
    const links = linksOfBatch(row)
    expect(links).toMatchObject([{ entries: expected, hash: row.hash }])
    expect(links.map((link) => hashEntry(emptyHash, link.text))).toEqual([row.hash])
    // Writing the text as UTF-8 to a database does not change it.
    expect(row.entries.isWellFormed()).toBe(true)
    expect(row.entries).not.toContain('\u0000')
  })
  fc.assert(property, { numRuns: times(200, 2_000) })
})

test('any change to a batch row is detected', () => {
  const changed = fc.record({
    reads: somethingRead,
    at: fc.nat(),
    by: fc.constantFrom('"', 'x', ',', '0', ' ', '[', ''),
  })
  const isValid = (row: BatchRow) => {
    const [link, ...others] = linksOfBatch(row)
    const isWhole =
      link?.entries[0]?.sequence === 42 && link.entries.at(-1)?.sequence === row.lastSequence && others.length === 0
    return isWhole && hashEntry(emptyHash, link.text) === link.hash
  }
  const property = fc.property(changed, ({ reads, at, by }) => {
    const { row } = compose(reads, 'chain')
    expect(isValid(row)).toBe(true)
    const place = at % row.entries.length
    const entries = row.entries.slice(0, place) + by + row.entries.slice(place + 1)
    if (entries !== row.entries) expect(isValid({ ...row, entries })).toBe(false)
    expect(isValid({ ...row, chainId: 'another' })).toBe(false)
    expect(isValid({ ...row, previousHash: 'f'.repeat(64) })).toBe(false)
    expect(isValid({ ...row, firstSequence: row.firstSequence + 1, lastSequence: row.lastSequence + 1 })).toBe(false)
    expect(isValid({ ...row, firstSequence: row.firstSequence - 1 })).toBe(false)
    expect(linksOfBatch({ ...row, lastSequence: row.lastSequence + 1 })).toEqual([])
  })
  fc.assert(property, { numRuns: times(200, 2_000) })
})

test('rows of the first format, with one link for each entry, still expand and verify', () => {
  const property = fc.property(somethingRead, text, (reads, chainId) => {
    const { row, recorded } = compose(reads, chainId)
    let previous: string = emptyHash
    const expected = recorded.map((entry) => {
      previous = hashEntry(previous, canonicalEntry(entry))
      return { ...entry, hash: previous }
    })
    const oldEntries = row.entries.replace('"isOneLink":true,', '').replace('"entries":[[0', '"reads":[[0')
    const old = { ...row, entries: oldEntries, hash: previous }
    expect(expandBatch(old)).toEqual(expected)
    const links = linksOfBatch(old)
    expect(links.map(({ entries }) => entries)).toEqual(expected.map((entry) => [entry]))
    let expectedHash: string = emptyHash
    for (const link of links) {
      expectedHash = hashEntry(expectedHash, link.text)
      expect(link.hash).toBe(expectedHash)
    }
  })
  fc.assert(property, { numRuns: times(200, 2_000) })
})
