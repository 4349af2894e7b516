// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references under test are written like template placeholders.
/** References are resolved or left unresolved as documented, with few loads and results of bounded size. */
import { describe, expect, test } from 'vitest'
import { createChain, createWorld, resolveFirst } from '../../../../../test/resolution-world.ts'
import { placeName } from './graph.ts'
import type { Reference } from './reference.ts'
import { resolveValues } from './resolution.ts'

describe('resolves', () => {
  test.each<[string, Record<string, string>, string]>([
    ['the same environment', { 'dev/A': 'x${B}y', 'dev/B': 'b' }, 'xby'],
    ['another environment', { 'dev/A': '${Prod.B}', 'prod/B': 'b' }, 'b'],
    ['a reference within another environment', { 'dev/A': '${prod.B}', 'prod/B': '${C}', 'prod/C': 'c' }, 'c'],
    ['an empty value', { 'dev/A': '[${B}]', 'dev/B': '' }, '[]'],
    ['the same reference twice', { 'dev/A': '${B}-${B}', 'dev/B': 'b' }, 'b-b'],
    ['escapes once, at every hop', { 'dev/A': '$${B}${B}', 'dev/B': '$${C}', 'dev/C': 'c' }, '${B}${C}'],
    ['text that only looks like a reference after joining', { 'dev/A': '$${B}', 'dev/B': 'b' }, '${B}'],
    ['values whose neighbours form a reference', { 'dev/A': '${D}{B}', 'dev/D': '$', 'dev/B': 'b' }, '${B}'],
    ['two paths to the same value', { 'dev/A': '${B}${C}', 'dev/B': '${D}', 'dev/C': '${D}', 'dev/D': 'd' }, 'dd'],
    ['sixteen hops', createChain(16), 'end'],
  ])('%s', async (_, values, value) => {
    expect(await resolveFirst(values)).toEqual({ value, unresolved: [] })
  })
})

describe('leaves unresolved', () => {
  test.each<[string, Record<string, string>, string, string, string[]]>([
    ['a missing value', { 'dev/A': 'x${B}y' }, 'x${B}y', 'xy', ['B']],
    [
      'an inaccessible environment',
      { 'dev/A': '${Secret 1.B}!', 'secret 1/B': 'b' },
      '${Secret 1.B}!',
      '!',
      ['Secret 1.B'],
    ],
    ['the innermost reference', { 'dev/A': 'x${B}y', 'dev/B': 'p${C}q' }, 'xp${C}qy', 'xpqy', ['C']],
    ['a reference as it is written in its value', { 'dev/A': '${prod.B}', 'prod/B': '${C}' }, '${C}', '', ['C']],
    [
      'each name once, in order',
      { 'dev/A': '${Z}${Y}${B}${Z}', 'dev/B': '${X}${Y}' },
      '${Z}${Y}${X}${Y}${Z}',
      '',
      ['Z', 'Y', 'X'],
    ],
    ['a value that refers to itself', { 'dev/A': 'a${A}' }, 'a${A}', 'a', ['A']],
    [
      'the reference that closes a cycle',
      { 'dev/A': 'a${B}', 'dev/B': 'b${C}', 'dev/C': 'c${A}' },
      'abc${A}',
      'abc',
      ['A'],
    ],
    [
      'a cycle behind the first reference',
      { 'dev/A': 'a${B}', 'dev/B': 'b${C}', 'dev/C': 'c${B}' },
      'abc${B}',
      'abc',
      ['B'],
    ],
    ['a cycle across environments', { 'dev/A': '${prod.A}', 'prod/A': 'p${dev.A}' }, 'p${dev.A}', 'p', ['dev.A']],
    ['the seventeenth hop', createChain(17), '${K17}', '', ['K17']],
  ])('%s', async (_, values, kept, emptied, unresolved) => {
    expect(await resolveFirst(values)).toEqual({ value: kept, unresolved })
    expect(await resolveFirst(values, { onUnresolved: 'error' })).toEqual({ value: kept, unresolved })
    expect(await resolveFirst(values, { onUnresolved: 'empty' })).toEqual({ value: emptied, unresolved })
  })

  test('the closing reference of a cycle, as seen from each of its values', async () => {
    const world = createWorld({ 'dev/A': 'a${B}', 'dev/B': 'b${A}', 'dev/C': '${A}${B}' })
    const { results } = await world.resolve(['dev/C', 'dev/A', 'dev/B'])
    expect(results.map(({ value }) => value)).toEqual(['ab${A}ba${B}', 'ab${A}', 'ba${B}'])
  })

  test('a reference that is too deep for one value but not for another', async () => {
    const { results } = await createWorld(createChain(18)).resolve(['dev/K0', 'dev/K1', 'dev/K2', 'dev/K3'])
    expect(results.map(({ value }) => value)).toEqual(['${K17}', '${K18}', 'end', 'end'])
  })
})

describe('loads', () => {
  test('nothing for values without references', async () => {
    const world = createWorld({ 'dev/A': 'a', 'dev/B': '$${A}', 'dev/C': '${' })
    await world.resolve(['dev/A', 'dev/B', 'dev/C'])
    expect(world.calls).toEqual([])
  })

  test('neither the given values nor inaccessible ones', async () => {
    const world = createWorld({ 'dev/A': '${B}${secret.A}', 'dev/B': '${A}' })
    await world.resolve(['dev/A', 'dev/B'])
    expect(world.calls).toEqual([])
  })

  test('each hop at once, for any number of values', async () => {
    const tails = Array.from({ length: 5_000 }, (_, index) => [`dev/R${index}`, `\${prod.S${index}}\${prod.K0}`])
    const heads = Array.from({ length: 5_000 }, (_, index) => [`prod/S${index}`, `\${dev.K${index % 40}}`])
    const chain = Object.entries(createChain(40)).flatMap(([name, value]) => [
      [name, value],
      [name.replace('dev', 'prod'), value],
    ])
    const world = createWorld(Object.fromEntries([...tails, ...heads, ...chain]))
    const { results } = await world.resolve(tails.map(([name]) => name ?? ''))
    expect(results).toHaveLength(5_000)
    expect(world.calls.length).toBeLessThanOrEqual(16)
    const loaded = world.calls.flat().map(placeName)
    expect(new Set(loaded).size).toBe(loaded.length)
  })

  test('and lists the places that the result depends on, missing ones included', async () => {
    const { visited } = await createWorld({ 'dev/A': '${prod.B}${secret.S}', 'prod/B': '${C}' }).resolve(['dev/A'])
    expect([...visited.places]).toEqual(['dev/A', 'prod/B', 'prod/C'])
    expect([...visited.environments]).toEqual(['dev', 'prod'])
  })

  test('with a place given twice, a reference uses the first, and each is resolved from its own value', async () => {
    const { locate, load } = {
      locate: (environmentId: string, { key }: Reference) => ({ environmentId, key }),
      load: async () => new Map(),
    }
    const roots = [
      { environmentId: 'dev', key: 'A', value: 'mine' },
      { environmentId: 'dev', key: 'B', value: 'b${A}' },
      { environmentId: 'dev', key: 'A', value: 'shared${B}' },
    ]
    const { results } = await resolveValues(roots, { locate, load, giveWay: () => undefined, onUnresolved: 'keep' })
    expect(results.map(({ value }) => value)).toEqual(['mine', 'bmine', 'sharedb${A}'])
  })
})

describe('results stay bounded', () => {
  test.each([2, 10, 1_000])('when each value refers to the next %i times', async (times) => {
    const world = createWorld(createChain(16, (next) => next.repeat(times)))
    const { results } = await world.resolve(Array.from({ length: 17 }, (_, index) => `dev/K${index}`))
    expect(Math.max(...results.map(({ value }) => value.length))).toBeLessThanOrEqual(2 ** 20)
    expect(results[15]).toEqual({ value: 'end'.repeat(times), unresolved: [] })
    if (times > 2) expect(results[0]).toEqual({ value: '${K1}'.repeat(times), unresolved: ['K1'] })
  })

  test('when the multiplied values are empty', async () => {
    const world = createWorld({ ...createChain(16, (next) => next.repeat(10)), 'dev/K16': '' })
    const { results } = await world.resolve(['dev/K0', 'dev/K14'], { onUnresolved: 'empty' })
    expect(results).toEqual([
      { value: '', unresolved: ['K1'] },
      { value: '', unresolved: [] },
    ])
  })

  test('when every value refers to every other', async () => {
    const keys = Array.from({ length: 300 }, (_, index) => `K${index}`)
    const all = keys.map((key) => `\${${key}}`).join('')
    const world = createWorld({
      ...Object.fromEntries(keys.map((key) => [`dev/${key}`, all])),
      'dev/A': 'a${B}',
      'dev/B': 'b',
    })
    const startedAt = performance.now()
    const { results } = await world.resolve([...keys.map((key) => `dev/${key}`), 'dev/A'])
    expect(performance.now() - startedAt).toBeLessThan(60_000)
    expect(results[0]).toEqual({ value: all, unresolved: keys })
    expect(results.at(-1)).toEqual({ value: 'ab', unresolved: [] })
  })

  test('in total growth, first values first', async () => {
    const values = { 'dev/A': '${X}', 'dev/B': '${X}', 'dev/C': 'plain', 'dev/D': '$${D}', 'dev/X': 'x'.repeat(1_000) }
    const world = createWorld(values)
    const { results } = await world.resolve(['dev/A', 'dev/B', 'dev/C', 'dev/D'], { maxGrowthBytes: 1_500 })
    expect(results.map(({ value }) => value)).toEqual(['x'.repeat(1_000), '${X}', 'plain', '${D}'])
    expect(results[1]?.unresolved).toEqual(['X'])
  })

  test('when there are more references than the limit: later references are left unresolved', async () => {
    const values = { 'dev/A': '${X}${X}${Y}', 'dev/B': '${X}', 'dev/C': '${X}$${Y}${Z}${E}', 'dev/D': 'plain' }
    const world = createWorld({ ...values, 'dev/X': 'x', 'dev/Y': 'y', 'dev/Z': 'z', 'dev/E': '${B}' })
    const names = Object.keys(values)
    const expected = (c: string) => [
      { value: 'xxy', unresolved: [] },
      { value: 'x', unresolved: [] },
      { value: c, unresolved: ['X', 'Z', 'E'] },
      { value: 'plain', unresolved: [] },
    ]
    // A repeated reference in one value counts once, so the first two values use three.
    const { results, visited } = await world.resolve(names, { maxLinks: 5 })
    expect(results).toEqual(expected('${X}${Y}${Z}${E}'))
    expect([...visited.places]).toEqual([...names, 'dev/X', 'dev/Y'])
    expect((await world.resolve(names, { maxLinks: 5, onUnresolved: 'empty' })).results).toEqual(expected('${Y}'))
    const gaps: string[] = []
    await world.resolve(names, { maxLinks: 5, onGap: ({ key }, { name }) => gaps.push(`${key} ${name}`) })
    expect(gaps).toEqual(['C X', 'C Z', 'C E'])
    // The references of a referenced value count too.
    expect((await world.resolve(names, { maxLinks: 6 })).results[2]).toEqual({ value: 'x${Y}z${E}', unresolved: ['E'] })
    expect((await world.resolve(names, { maxLinks: 7 })).results[2]).toEqual({ value: 'x${Y}zx', unresolved: [] })
  })

  test('with shortened lists of unresolved names when there are too many references', async () => {
    const all = Array.from({ length: 30 }, (_, index) => `\${K${index}}`).join('')
    const names = Array.from({ length: 10 }, (_, index) => `dev/R${index}`)
    const world = createWorld(Object.fromEntries(names.map((name) => [name, all])))
    const { results } = await world.resolve(names, { maxLinks: 60 })
    expect(results.map(({ unresolved }) => unresolved.length)).toEqual([30, 30, 30, 30, ...Array(6).fill(10)])
    expect(results.every(({ value }) => value === all)).toBe(true)
    expect(world.calls).toHaveLength(1)
  })

  test('when the same references are repeated a million times', async () => {
    const names = Array.from({ length: 110 }, (_, index) => `dev/R${index}`)
    const text = '${X}'.repeat(10_000)
    const world = createWorld({ ...Object.fromEntries(names.map((name) => [name, text])), 'dev/X': 'x' })
    const { results } = await world.resolve(names)
    expect(results.map(({ value }) => value === 'x'.repeat(10_000))).toEqual(names.map((_, index) => index < 100))
    expect(results.at(-1)).toEqual({ value: text, unresolved: ['X'] })
  })

  test('in bytes, not characters', async () => {
    const values = { 'dev/A': '${X}', 'dev/X': 'é'.repeat(100) }
    expect((await resolveFirst(values, { maxBytes: 201 }))?.unresolved).toEqual([])
    expect((await resolveFirst(values, { maxBytes: 199 }))?.unresolved).toEqual(['X'])
  })

  test('but a value without references is never shortened', async () => {
    expect(await resolveFirst({ 'dev/A': 'x'.repeat(100) }, { maxBytes: 10 })).toEqual({
      value: 'x'.repeat(100),
      unresolved: [],
    })
  })
})
