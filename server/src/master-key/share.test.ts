/** Shares of a split key: any threshold of them gives the key, and a wrong one is recognised before it is used. */
import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { refusalOf } from '../../../test/master-key.ts'
import { type ShareSet, splitKey } from './share.ts'
import { collectShares } from './share-collector.ts'

const key = Uint8Array.from(randomBytes(32))
const bytes = (text: string) => Buffer.from(text)

async function splitInto(count: number, threshold: number) {
  const { set, texts } = await splitKey(key, { count, threshold })
  const share = (index: number) => bytes(texts[index - 1] ?? '')
  return { set, texts, share }
}

function subsets(count: number, size: number, from = 1): number[][] {
  if (size === 0) return [[]]
  const rest = Array.from({ length: count - from + 1 }, (_, at) => from + at)
  return rest.flatMap((first) => subsets(count, size - 1, first + 1).map((others) => [first, ...others]))
}

test.each([
  [5, 3],
  [2, 2],
  [4, 4],
  [7, 2],
])('any threshold of %i shares gives the key', async (count, threshold) => {
  const { set, share } = await splitInto(count, threshold)
  for (const indexes of subsets(count, threshold)) {
    for (const expected of [[set], []]) {
      const shares = collectShares(expected)
      for (const index of indexes.slice(0, -1)) expect(await shares.add(share(index))).toBeUndefined()
      expect(shares.given).toBe(threshold - 1)
      expect(await shares.add(share(indexes.at(-1) ?? 0))).toEqual(key)
      expect(shares.given).toBe(0)
    }
  }
})

test('a share names its version, set, threshold, number and index, and holds no part of the key', async () => {
  const { set, texts } = await splitInto(5, 3)
  expect(texts).toHaveLength(5)
  for (const [at, text] of texts.entries()) {
    expect(text).toMatch(new RegExp(`^coffer-share-1-${set.set}-3of5-${at + 1}(-[0-9A-HJKMNP-TV-Z]{5}){12}$`))
  }
  expect(JSON.stringify(set)).toMatch(
    /^{"set":"[0-9a-f]{8}","threshold":3,"count":5,"check":"[0-9a-f]{16}","shareChecks":\[("[0-9a-f]{16}",?){5}\]}$/,
  )
  expect((await splitInto(5, 3)).set.set).not.toBe(set.set)
})

test('a share may be typed in lower case, with spaces, and with letters that look like digits', async () => {
  const { set, texts, share } = await splitInto(3, 2)
  const shares = collectShares([set])
  const typed = (texts[0] ?? '').replace(/(?<=-1-)[0-9A-Z-]{71}$/, (payload) =>
    payload.toLowerCase().replaceAll('0', 'o').replaceAll('1', 'l').replaceAll('-', ' '),
  )
  expect(typed).not.toBe(texts[0])
  await shares.add(bytes(`  ${typed} \r`))
  expect(await shares.add(share(2))).toEqual(key)
})

test('a changed, missing or added character anywhere is noticed, and does not count', async () => {
  const { set, texts } = await splitInto(3, 2)
  const [text = ''] = texts
  const shares = collectShares([set])
  for (let at = 0; at < text.length; at++) {
    const other = text[at] === '7' ? '8' : '7'
    const wrong = [text.slice(0, at) + other + text.slice(at + 1)]
    // Dashes between groups mean nothing.
    if (text[at] !== '-') wrong.push(text.slice(0, at) + text.slice(at + 1))
    wrong.push(`${text.slice(0, at)}7${text.slice(at)}`)
    for (const line of wrong) {
      const message = await refusalOf(shares.add(bytes(line)))
      expect(message).toMatch(/^This (is not a share|share (is|has|does))/)
      expect(message).not.toContain(text.slice(-20))
    }
  }
  expect(shares.given).toBe(0)
})

test.each([
  ['an empty line', '', 'is not a share'],
  ['a password', 'hunter2', 'is not a share'],
  ['the head alone', 'coffer-share-1-0123abcd-3of5-1', 'mistyped or cut off'],
  ['another version', 'coffer-share-2-0123abcd-3of5-1-AAAAA', 'has version 2'],
  ['letters that no share has', 'coffer-share-1-0123abcd-3of5-1-UUUUU-!', 'mistyped or cut off'],
])('%s is refused', async (_, line, reason) => {
  expect(await refusalOf(collectShares().add(bytes(line)))).toContain(reason)
})

test('foreign and repeated shares do not count', async () => {
  const [one, other] = [await splitInto(3, 2), await splitInto(3, 2)]
  const shares = collectShares([one.set])
  expect(await refusalOf(shares.add(other.share(1)))).toContain(`is of set ${other.set.set}`)
  await shares.add(one.share(2))
  expect(await refusalOf(shares.add(one.share(2)))).toBe('Share 2 was already given.')
  expect(await refusalOf(shares.add(other.share(3)))).toContain('is of set')
  expect(shares.given).toBe(1)
  expect(await shares.add(one.share(1))).toEqual(key)
})

test('shares of two sets are collected apart, and the set that is whole first gives its key', async () => {
  const [one, other] = [await splitInto(3, 2), await splitInto(5, 3)]
  const shares = collectShares([one.set, other.set])
  expect(shares.set?.set).toBe(one.set.set)
  await shares.add(other.share(1))
  await shares.add(one.share(1))
  await shares.add(other.share(2))
  expect([shares.set?.set, shares.given]).toEqual([other.set.set, 2])
  expect(await refusalOf(shares.add(other.share(2)))).toBe('Share 2 was already given.')
  const foreign = await splitInto(3, 2)
  expect(await refusalOf(shares.add(foreign.share(1)))).toContain(`into set ${one.set.set} or ${other.set.set}.`)
  expect(await shares.add(one.share(2))).toEqual(key)
})

/** A share of the set with other bytes and right check characters, as a damaged or hostile holder may have it. */
function forgeShare({ set }: Pick<ShareSet, 'set'>, index: number, threshold: number, count: number): Buffer {
  const head = `coffer-share-1-${set}-${threshold}of${count}-${index}`
  const body = randomBytes(33)
  const sum = createHash('sha256').update(head).update(body).digest().subarray(0, 4)
  const bits = [...body, ...sum].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const letters = bits
    .match(/.{1,5}/g)
    ?.map((part) => '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[Number(`0b${part.padEnd(5, '0')}`)])
  return bytes(`${head}-${letters?.join('')}`)
}

test('a wrong share is named when it is given, and the others stay', async () => {
  const { set, share } = await splitInto(5, 3)
  const shares = collectShares([set])
  await shares.add(share(1))
  for (const index of [2, 5]) {
    expect(await refusalOf(shares.add(forgeShare(set, index, 3, 5)))).toBe(
      `Share ${index} is not the one that was made for this store: ask its holder.`,
    )
  }
  expect(shares.given).toBe(1)
  await shares.add(share(2))
  expect(await shares.add(share(4))).toEqual(key)
})

test('a key that was split before shares had checks is combined, and a wrong share spoils the round as before', async () => {
  const { set, share } = await splitInto(3, 2)
  const { shareChecks: _, ...older } = set
  const shares = collectShares([older])
  await shares.add(share(1))
  expect(await refusalOf(shares.add(forgeShare(set, 2, 2, 3)))).toContain('all were dropped, begin again')
  await shares.add(share(1))
  expect(await shares.add(share(2))).toEqual(key)
})

test('shares that give another key are all dropped', async () => {
  const { set, share } = await splitInto(3, 2)
  const shares = collectShares([{ ...set, check: '0'.repeat(16) }])
  await shares.add(share(1))
  expect(await refusalOf(shares.add(share(2)))).toContain('all were dropped, begin again')
  expect(shares.given).toBe(0)
  await shares.add(share(2))
  expect(shares.given).toBe(1)
})

test.each([
  [1, 1],
  [5, 1],
  [3, 4],
  [21, 3],
  [0, 0],
  [Number.NaN, 2],
])('a key is not split into %i shares of which %i are needed', async (count, threshold) => {
  expect(await refusalOf(splitKey(key, { count, threshold }))).toContain('at most 20 shares')
})
