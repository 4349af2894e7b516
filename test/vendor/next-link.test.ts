import { expect, test } from 'vitest'
import { nextLink } from '../../server/src/providers/vendor-http.ts'

const from = 'https://vendor.example/list?page=1'
const read = (link: string | string[] | undefined) =>
  nextLink(from, { status: 200, headers: link === undefined ? {} : { link }, text: '', json: undefined })

test.each<[string, string | string[] | undefined, string | undefined]>([
  ['no header', undefined, undefined],
  ['an empty header', '', undefined],
  ['a link', '<https://vendor.example/list?page=2>; rel="next"', 'https://vendor.example/list?page=2'],
  ['a relative link without quotes', '</list?page=2>;rel=next', 'https://vendor.example/list?page=2'],
  ['a link among others', '</a>; rel="prev", </b>; rel="next", </c>; rel="last"', 'https://vendor.example/b'],
  ['a link in a second header', ['</a>; rel="prev"', '</b>; rel="next"'], 'https://vendor.example/b'],
  ['a link with other parameters', '</b>; title="b"; REL="Next"', 'https://vendor.example/b'],
  ['a link with commas in its URL', '</b?ids=1,2>; rel="next"', 'https://vendor.example/b?ids=1,2'],
  ['the last page', '</a>; rel="prev", </c>; rel="first"', undefined],
  ['no parameters', '</a>', undefined],
  ['a parameter without a link', '</a>, rel="next"', undefined],
])('reads the next page from %s', (_, link, next) => {
  expect(read(link)).toBe(next)
})

test('does not follow a page on another host', () => {
  expect(() => read('<https://elsewhere.example/>; rel="next"')).toThrow('another host')
})

// A quadratic parser would take minutes.
test.each([
  ['opening brackets', '<'.repeat(400_000)],
  ['closing brackets', '>'.repeat(400_000)],
  ['links', '<>;'.repeat(130_000)],
  ['spaces', `<>${' '.repeat(400_000)}`],
  ['parameters', `<>${'; rel'.repeat(80_000)}`],
  ['an unterminated URL', `<${'a'.repeat(400_000)}`],
])('reads a hostile header in linear time: %s', (_, link) => {
  expect(read(link)).toBeUndefined()
})
