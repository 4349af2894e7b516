import { createSecretKey } from 'node:crypto'
import { expect, test } from 'vitest'
import { createEtagMaker, encodedEtag, fileEtag, findKnownEtag, isMatch } from './etag.ts'

const etag = fileEtag(Buffer.from('content'))

test.each([
  ['the ETag as it was sent', etag, etag],
  ['an ETag that a proxy marked as weak', `W/${etag}`, etag],
  ['one of several', `"other" , W/${etag}`, etag],
  ['the ETag of a compressed response', encodedEtag(etag, 'br'), encodedEtag(etag, 'br')],
  ['any response', ' * ', etag],
  ['another response', '"other"', undefined],
  ['an encoding that no response has', `${etag.slice(0, -1)}.zip"`, undefined],
  ['the beginning of the ETag', etag.slice(0, -1), undefined],
  ['nothing', '', undefined],
])('finds the ETag that a client has by %s', (_what, header, known) => {
  expect(findKnownEtag(header, etag)).toBe(known)
})

test('a client without the header has nothing', () => {
  expect(findKnownEtag(undefined, etag)).toBeUndefined()
})

test('an ETag of values depends on the key and on every piece', () => {
  const make = (key: string, ...pieces: string[]) => {
    const maker = createEtagMaker(createSecretKey(Buffer.from(key)))
    for (const piece of pieces) maker.add(Buffer.from(piece))
    return maker.finish()
  }
  const made = [make('a', 'x', 'y'), make('b', 'x', 'y'), make('a', 'x'), make('a', 'x', 'z')]
  expect(new Set(made).size).toBe(4)
  expect(make('a', 'x', 'y')).toBe(make('a', 'xy'))
  for (const one of made) expect(one).toMatch(/^"[\w-]{43}"$/)
})

test.each([
  ['the ETag', etag, true],
  ['one of several', `"other" , ${etag}`, true],
  ['a weak tag', `W/${etag}`, false],
  ['another response', '"other"', false],
  ['nothing', '', false],
])('a change is guarded by %s', (_what, header, isGuarded) => {
  expect(isMatch(header, etag)).toBe(isGuarded)
})
