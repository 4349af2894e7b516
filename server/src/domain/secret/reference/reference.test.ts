// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references under test are written like template placeholders.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test/any-character.ts'
import { times } from '../../../../../test/tier.ts'
import {
  hasReferences,
  parsePieces,
  type Reference,
  readReference,
  surveyReferences,
  writeReferenceName,
} from './reference.ts'

const parseReferences = (text: string) => parsePieces(text, readReference)
const writeReference = (reference: Reference) => `\${${writeReferenceName(reference)}}`

test.each<[string, (string | Reference)[]]>([
  ['${A}', [{ key: 'A' }]],
  ['${a-b_9}', [{ key: 'a-b_9' }]],
  ['${-}', [{ key: '-' }]],
  ['${prod.A}', [{ environment: 'prod', key: 'A' }]],
  ['${Pre Prod_2-x.A}', [{ environment: 'Pre Prod_2-x', key: 'A' }]],
  ['${my-app.prod.A}', [{ project: 'my-app', environment: 'prod', key: 'A' }]],
  ['x${A}y${B}${C}', ['x', { key: 'A' }, 'y', { key: 'B' }, { key: 'C' }]],
  ['${${A}}', ['${', { key: 'A' }, '}']],
  ['é${A}\n\0', ['é', { key: 'A' }, '\n\0']],
  [`\${${'k'.repeat(255)}}`, [{ key: 'k'.repeat(255) }]],
  [`\${${'e'.repeat(48)}.K}`, [{ environment: 'e'.repeat(48), key: 'K' }]],
  [
    `\${${'p'.repeat(48)}.${'e'.repeat(48)}.${'k'.repeat(255)}}`,
    [{ project: 'p'.repeat(48), environment: 'e'.repeat(48), key: 'k'.repeat(255) }],
  ],
])('reads the references of %j', (text, pieces) => {
  expect(parseReferences(text)).toEqual(pieces)
  expect(hasReferences(text)).toBe(true)
})

test.each([
  ['$${A}', '${A}'],
  ['$$${A}', '$${A}'],
  ['$$$${A}', '$$${A}'],
  ['$${', '${'],
  ['$${}', '${}'],
  ['$${a b}', '${a b}'],
  ['a$${A}b$${B}', 'a${A}b${B}'],
])('turns the escapes of %j into literal text, from left to right', (text, literal) => {
  expect(parseReferences(text)).toEqual([literal])
  expect(hasReferences(text)).toBe(true)
})

test('reads a reference right after an escape', () => {
  expect(parseReferences('$${${A}')).toEqual(['${', { key: 'A' }])
})

test.each([
  '',
  '$',
  '$$',
  '{A}',
  '$A',
  '$(A)',
  '$ {A}',
  '${',
  '${}',
  '${A',
  '${A\n}',
  '${ A}',
  '${A }',
  '${a b}',
  '${A:-default}',
  '${A.}',
  '${.A}',
  '${a..B}',
  '${A.B.C.D}',
  '${-env.A}',
  '${ env.A}',
  '${My-App.prod.A}',
  '${my app.prod.A}',
  '${p.prod.A}',
  '${É}',
  `\${${'k'.repeat(256)}}`,
  `\${${'e'.repeat(49)}.K}`,
  `\${${'p'.repeat(49)}.prod.K}`,
  `\${${'.'.repeat(100_000)}}`,
])('leaves %j unchanged', (text) => {
  expect(parseReferences(text)).toEqual([text])
  expect(hasReferences(text)).toBe(false)
})

const anyText = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.string({ unit: fc.constantFrom('$', '{', '}', 'A', '.', ' ') }),
)

test('the pieces of a text without escapes join to the same text', () => {
  fc.assert(
    fc.property(anyText, (raw) => {
      const text = raw.replaceAll('$${', '${')
      fc.pre(!text.includes('$${'))
      const pieces = parseReferences(text)
      expect(pieces.map((piece) => (typeof piece === 'string' ? piece : writeReference(piece))).join('')).toBe(text)
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('any text can be escaped', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(parseReferences(text.replaceAll('${', () => '$${'))).toEqual([text])
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('hasReferences is true exactly when a piece is a reference', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const [first, ...others] = parseReferences(text)
      expect(hasReferences(text)).toBe(first !== text || others.length > 0)
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('each reference is listed once, and every occurrence is counted', () => {
  fc.assert(
    fc.property(anyText, fc.nat(3), (text, times) => {
      const { references, count } = surveyReferences(text.repeat(times))
      const named = parseReferences(text.repeat(times)).flatMap((piece) =>
        typeof piece === 'string' ? [] : [writeReference(piece)],
      )
      expect(references.map(writeReference)).toEqual([...new Set(named)])
      expect(count).toBeGreaterThanOrEqual(named.length)
    }),
    { numRuns: times(200, 2_000) },
  )
})

const key = fc.stringMatching(/^[A-Za-z0-9_-]{1,255}$/)
const environment = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9 _-]{0,47}$/)
const project = fc.stringMatching(/^[a-z0-9-]{2,48}$/)

test('a written reference is read back unchanged', () => {
  const reference = fc.oneof(
    fc.record({ key }),
    fc.record({ environment, key }),
    fc.record({ project, environment, key }),
  )
  fc.assert(
    fc.property(reference, (reference) => {
      expect(parseReferences(writeReference(reference))).toEqual([reference])
    }),
    { numRuns: times(200, 2_000) },
  )
})

test.each([
  ['openings', '${'.repeat(100_000)],
  ['dollars', '$'.repeat(1_000_000)],
  ['escapes', '$${'.repeat(300_000)],
  ['an endless body', `\${${'a'.repeat(1_000_000)}`],
  ['bodies that never close', `\${${'a'.repeat(353)}`.repeat(3_000)],
  ['dots', '${.'.repeat(300_000)],
  ['invalid bodies', '${a b}'.repeat(200_000)],
])('reads a hostile value in linear time: %s', (_, text) => {
  const before = process.cpuUsage()
  parseReferences(text)
  hasReferences(text)
  const { user, system } = process.cpuUsage(before)
  // Quadratic time would take minutes. CPU time, because other processes use up wall-clock time.
  expect((user + system) / 1_000).toBeLessThan(20_000)
})
