import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import { parseJsonObject } from './json.ts'

test.each([
  '{"a":1,"a":2}',
  '{"a":1,"b":2,"a":1}',
  '{"\\u0061":1,"a":2}',
  '{"a":{"b":1,"b":2}}',
  '{"a":[{"b":1},{"c":1,"c":2}]}',
  '{"a":"x","b":{"c":"}"},"a":1}',
  '{ "a" : 1 , "a" : 1 }',
  '{"__proto__":1,"__proto__":2}',
  '{"":1,"":2}',
  '{"a\\"":1,"a\\"":2}',
  '[]',
  '[{"a":1}]',
  'null',
  '1',
  '"a"',
  '',
  '{',
  '{"a":1} x',
  '{"a":1}{"b":2}',
  `{"a":${'['.repeat(32)}${']'.repeat(32)}}`,
  `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`,
])('refuses %s', (text) => {
  expect(parseJsonObject(text)).toBeUndefined()
})

test.each([
  '{}',
  '{"a":"a","b":"a"}',
  '{"a":{"a":{"a":1}}}',
  '{"a":["a","a",{"a":1},{"a":1}]}',
  '{"a":"\\"a\\":1,\\"a\\":2"}',
  '{"a":"\\\\","b":"{\\"a\\""}',
  '{"a":[1,2,3],"b":[],"c":{}}',
  `{"a":${'['.repeat(31)}${']'.repeat(31)}}`,
  `{"a":"${'['.repeat(100)}"}`,
])('reads %s', (text) => {
  expect(parseJsonObject(text)).toEqual(JSON.parse(text))
})

test('reads every object that JSON.stringify writes, and refuses it with any member name repeated', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 }), { minKeys: 1 }), (object) => {
      const text = JSON.stringify(object)
      expect(parseJsonObject(text)).toEqual(JSON.parse(text))
      for (const name of Object.keys(object)) {
        expect(parseJsonObject(`${text.slice(0, -1)},${JSON.stringify(name)}:0}`)).toBeUndefined()
      }
    }),
    { numRuns: times(200, 2_000) },
  )
})
