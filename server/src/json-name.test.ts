import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findRepeatedName, findRepeatedNameInPortions } from './json-name.ts'

test.each<[string, string | undefined]>([
  ['{"a":1,"b":2}', undefined],
  ['{"a":1,"a":2}', 'a'],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['{"":1,"":2}', ''],
  ['{"a":{"a":1},"b":[{"a":1},{"a":2}]}', undefined],
  ['{"a":{"b":1,"c":{"d":1},"b":2}}', 'b'],
  ['[{"x":"a"},{"x":"a","y":"a"}]', undefined],
  ['{"a":"{\\"b\\":1,\\"b\\":2}","c":"\\\\","d":"\\\\\\""}', undefined],
  ['{"a":["b","b","b"],"c":"b"}', undefined],
  ['{"__proto__":1,"__proto__":2}', '__proto__'],
  ['{"constructor":1,"toString":2}', undefined],
  ['{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"3":0}', '3'],
  ['{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"10":0}', '10'],
  ['"a"', undefined],
  ['', undefined],
])('%s', async (text, name) => {
  const expected = name === undefined ? undefined : { name }
  expect(findRepeatedName(text)).toEqual(expected)
  expect(await findRepeatedNameInPortions(text, () => undefined)).toEqual(expected)
})

test('no JSON of distinct names is suspected, and one more of the same name is found', () => {
  const object = fc.dictionary(fc.string(), fc.jsonValue())
  fc.assert(
    fc.property(object, fc.string(), (value, name) => {
      expect(findRepeatedName(JSON.stringify(value))).toBeUndefined()
      const inside = JSON.stringify(value).slice(1, -1)
      const twice = `{${JSON.stringify(name)}:1${inside && `,${inside}`},${JSON.stringify(name)}:2}`
      expect(findRepeatedName(twice)).toBeDefined()
    }),
  )
})

test.each([
  ['one long text', `{"a":"${'x'.repeat(8_000_000)}","b":1,"b":2}`],
  ['escapes', `{"a":"${'\\"'.repeat(4_000_000)}","b":1,"b":2}`],
  ['names', `{${Array.from({ length: 600_000 }, (_, at) => `"k${at}":0`).join()},"k7":1}`],
  ['objects', `{"a":[${'{"b":0},'.repeat(900_000)}{"b":1,"b":2}]}`],
])('a large body of %s gives way to others again and again', async (_what, text) => {
  let times = 0
  const giveWay = async () => {
    times++
  }
  expect(await findRepeatedNameInPortions(text, giveWay)).toBeDefined()
  expect(times).toBeGreaterThan(text.length / (64 * 1024) - 2)
})
