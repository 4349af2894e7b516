/** Text of a stranger: whatever it is, reading it takes time in proportion to its length. */
import { expect, test } from 'vitest'
import { elementsIn, tagIn } from './xml-text.ts'

test('elements and their text are found', () => {
  const xml = '<List><A><Key>1</Key></A><B/><A><Key></Key></A><A>x</A></List>'
  expect(elementsIn(xml, 'A', 10)).toEqual(['<Key>1</Key>', '<Key></Key>', 'x'])
  expect(elementsIn(xml, 'C', 10)).toEqual([])
  expect(tagIn(xml, 'Key')).toBe('1')
  expect(tagIn('<A><B>1</B></A><A>2</A>', 'A')).toBe('2')
  expect([tagIn(xml, 'C'), tagIn('<Key>', 'Key'), tagIn('<Key>1</Kex>', 'Key')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})

test('no more elements are read than asked for, and none after one without an end', () => {
  expect(elementsIn('<A>1</A>'.repeat(5), 'A', 3)).toEqual(['1', '1', '1'])
  expect(elementsIn('<A>1</A><A>2', 'A', 10)).toEqual(['1'])
})

const mebibyte = 1024 * 1024
const fill = (text: string) => text.repeat(Math.ceil(mebibyte / text.length))

test.each([
  ['begins without ends', fill('<A>')],
  ['begins, and one end', `${fill('<A>')}</A>`],
  ['begins with text, without ends', fill('<A>x')],
  ['ends without begins', fill('</A>')],
  ['half begins', fill('<A')],
])('a mebibyte of %s takes no longer than any other', (_what, xml) => {
  const before = process.cpuUsage()
  elementsIn(xml, 'A', 1_000)
  tagIn(xml, 'A')
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1_000).toBeLessThan(2_000)
})
