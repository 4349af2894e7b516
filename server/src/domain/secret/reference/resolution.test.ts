// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references under test are written like template placeholders.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../../../test/tier.ts'
import { findCycle, type LoadValues, type Locate, type Place, type PlacedValue, placeName } from './graph.ts'
import { type Reference, writeReferenceName } from './reference.ts'
import { type OnUnresolved, type ResolveOptions, resolveValues } from './resolution.ts'

/** Values by `environment/KEY`. A reference without an environment stays in its own; environments called `secret…` are inaccessible. */
function createWorld(values: Readonly<Record<string, string>>) {
  const calls: (readonly Place[])[] = []
  const refused = new Set<string>()
  const locate: Locate = (from, reference) => {
    const place = { environmentId: reference.environment?.toLowerCase() ?? from, key: reference.key }
    if (!place.environmentId.startsWith('secret')) return place
    refused.add(placeName(place))
    return undefined
  }
  const load: LoadValues = async (places) => {
    calls.push(places)
    const names = places.map(placeName)
    return new Map(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]] as const])))
  }
  const root = (name: string): PlacedValue => {
    const [environmentId = '', key = ''] = name.split('/')
    return { environmentId, key, value: values[name] ?? '' }
  }
  const resolve = (names: readonly string[], options?: Partial<ResolveOptions>) =>
    resolveValues(names.map(root), { locate, load, onUnresolved: 'keep', ...options })
  const cycle = async (names: readonly string[]) => (await findCycle(names.map(root), { locate, load }))?.map(placeName)
  return { calls, refused, resolve, cycle }
}

async function resolveFirst(values: Readonly<Record<string, string>>, options?: Partial<ResolveOptions>) {
  const { results } = await createWorld(values).resolve(Object.keys(values).slice(0, 1), options)
  return results[0]
}

/** `dev/K0` refers to `dev/K1`, and so on up to `dev/K<length>`. */
function createChain(length: number, link: (next: string) => string = (next) => next): Record<string, string> {
  const links = Array.from({ length }, (_, index) => [`dev/K${index}`, link(`\${K${index + 1}}`)])
  return Object.fromEntries([...links, [`dev/K${length}`, 'end']])
}

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
    const { results } = await resolveValues(roots, { locate, load, onUnresolved: 'keep' })
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
    expect(performance.now() - startedAt).toBeLessThan(10_000)
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

describe('findCycle', () => {
  test.each<[string, Record<string, string>, string[] | undefined]>([
    ['nothing in plain values', { 'dev/A': 'a' }, undefined],
    [
      'nothing in two paths to the same value',
      { 'dev/A': '${B}${C}', 'dev/B': '${D}', 'dev/C': '${D}', 'dev/D': 'd' },
      undefined,
    ],
    ['nothing behind an escape', { 'dev/A': '$${A}' }, undefined],
    ['nothing through a missing value', { 'dev/A': '${B}' }, undefined],
    ['nothing in an inaccessible environment', { 'secret/A': '${secret.A}' }, undefined],
    ['a value that refers to itself', { 'dev/A': '${dev.A}' }, ['dev/A']],
    ['a cycle of three', { 'dev/A': '${B}', 'dev/B': '${prod.C}', 'prod/C': '${dev.A}' }, ['dev/A', 'dev/B', 'prod/C']],
    ['the shortest cycle', { 'dev/A': '${B}', 'dev/B': '${C}${A}', 'dev/C': '${A}' }, ['dev/A', 'dev/B']],
    [
      'nothing in a cycle that the value only leads to',
      { 'dev/A': '${B}', 'dev/B': '${C}', 'dev/C': '${B}' },
      undefined,
    ],
    [
      'a cycle through the given value rather than another',
      { 'dev/A': '${X}${B}', 'dev/B': '${A}', 'dev/X': '${X}' },
      ['dev/A', 'dev/B'],
    ],
  ])('finds %s', async (_, values, cycle) => {
    expect(await createWorld(values).cycle(Object.keys(values).slice(0, 1))).toEqual(cycle)
  })

  test('follows a chain longer than the call stack among the given values', async () => {
    const values = createChain(50_000)
    expect(await createWorld(values).cycle(Object.keys(values))).toBeUndefined()
    const closed = { ...values, 'dev/K50000': '${K0}' }
    expect(await createWorld(closed).cycle(Object.keys(closed))).toHaveLength(50_001)
  })

  test.each([
    ['different references', 101, 1_000],
    ['equal references', 110, 1],
  ])('refuses values with too many references: %s', async (_, count, different) => {
    const value = Array.from({ length: 10_000 }, (_, index) => `\${MISSING_${index % different}}`).join('')
    const names = Array.from({ length: count }, (_, index) => `dev/R${index}`)
    const world = createWorld(Object.fromEntries(names.map((name) => [name, value])))
    await expect(world.cycle(names)).rejects.toThrow('value: these values hold more than 100,000 references')
    expect(await world.cycle(names.slice(0, 99))).toBeUndefined()
  })

  test('refuses a value that leads to too many references', async () => {
    const value = Array.from({ length: 1_000 }, (_, index) => `\${MISSING_${index}}`).join('')
    const names = Array.from({ length: 100 }, (_, index) => `dev/R${index}`)
    const all = names.map((name) => `\${${name.slice(4)}}`)
    const values = { 'dev/ALL': all.join(''), 'dev/SOME': all.slice(1).join('') }
    const world = createWorld({ ...values, ...Object.fromEntries(names.map((name) => [name, value])) })
    await expect(world.cycle(['dev/ALL'])).rejects.toThrow('or reference fewer')
    expect(await world.cycle(['dev/SOME'])).toBeUndefined()
  })

  test('finds a cycle that is longer than the depth limit of a read', async () => {
    const world = createWorld({ ...createChain(40), 'dev/K40': '${K0}' })
    expect(await world.cycle(['dev/K0'])).toHaveLength(41)
    expect(world.calls).toHaveLength(40)
  })
})

type Part = { readonly literal: string } | { readonly key: number; readonly environment?: string }
type World = { readonly [name: string]: readonly Part[] }

const environments = ['dev', 'prod', 'secret']
const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ literal: fc.constantFrom('', 'a', 'é', '$', '${', '{', '${K1}') }),
  fc.record({ key: fc.nat(4) }),
  fc.record({ key: fc.nat(4), environment: fc.constantFrom(...environments) }),
)
const worlds: fc.Arbitrary<World> = fc.dictionary(
  fc.tuple(fc.constantFrom('dev', 'prod'), fc.nat(3)).map(([environment, key]) => `${environment}/K${key}`),
  fc.array(part, { maxLength: 4 }),
)

const referenceOf = (part: { key: number; environment?: string }): Reference =>
  part.environment ? { environment: part.environment, key: `K${part.key}` } : { key: `K${part.key}` }

function writeParts(parts: readonly Part[]): string {
  // The separator keeps a literal dollar from forming an escape with a reference, or a reference with a brace.
  return parts
    .map((part) =>
      'literal' in part ? part.literal.replaceAll('${', () => '$${') : `|\${${writeReferenceName(referenceOf(part))}}`,
    )
    .join('|')
}

/** Reference implementation, without regard to cost. `size` counts bytes with unresolved references kept, and each reference followed. */
function resolveNaively(
  world: World,
  name: string,
  hopsLeft: number,
  mode: OnUnresolved,
  path: readonly string[] = [],
) {
  const unresolved: string[] = []
  let size = 0
  const texts = (world[name] ?? []).map((part) => {
    if ('literal' in part) {
      size += Buffer.byteLength(part.literal)
      return part.literal
    }
    const environment = part.environment ?? name.split('/')[0]
    const target = `${environment}/K${part.key}`
    const visited = [...path, name]
    if (environment === 'secret' || !world[target] || hopsLeft === 0 || visited.includes(target)) {
      const written = `\${${writeReferenceName(referenceOf(part))}}`
      unresolved.push(written.slice(2, -1))
      size += 1 + written.length
      return mode === 'empty' ? '|' : `|${written}`
    }
    const inner: { value: string; unresolved: string[]; size: number } = resolveNaively(
      world,
      target,
      hopsLeft - 1,
      mode,
      visited,
    )
    unresolved.push(...inner.unresolved)
    size += 2 + inner.size
    return `|${inner.value}`
  })
  size += Math.max(0, texts.length - 1)
  return { value: texts.join('|'), unresolved: [...new Set(unresolved)], size }
}

describe('for any values', () => {
  const modes = fc.constantFrom<OnUnresolved>('keep', 'empty', 'error')
  const limits = fc.record({ maxDepth: fc.nat(9), maxBytes: fc.oneof(fc.constant(2 ** 20), fc.nat(200)) })

  test('resolves like the naive recursion, within the limits and with few loads', async () => {
    await fc.assert(
      fc.asyncProperty(
        worlds,
        modes,
        limits,
        fc.infiniteStream(fc.boolean()),
        async (parts, onUnresolved, limits, chosen) => {
          const names = Object.keys(parts).filter(() => chosen.next().value)
          const world = createWorld(
            Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, writeParts(value)])),
          )
          const { results, visited } = await world.resolve(names, { onUnresolved, ...limits })

          const expected = names.map((name) => {
            const full = resolveNaively(parts, name, limits.maxDepth, onUnresolved)
            return full.size <= limits.maxBytes ? full : resolveNaively(parts, name, 0, onUnresolved)
          })
          expect(results).toEqual(expected.map(({ value, unresolved }) => ({ value, unresolved })))

          const loaded = world.calls.flat().map(placeName)
          expect(world.calls.length).toBeLessThanOrEqual(limits.maxDepth)
          expect(new Set(loaded).size).toBe(loaded.length)
          expect(loaded.filter((name) => world.refused.has(name) || names.includes(name))).toEqual([])
          expect(visited.places).toEqual(new Set([...names, ...loaded]))
        },
      ),
      { numRuns: times(200, 3_000) },
    )
  })

  test('resolves each value as if it were the only one', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, limits, async (parts, limits) => {
        const world = createWorld(
          Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, writeParts(value)])),
        )
        const together = await world.resolve(Object.keys(parts), limits)
        const alone = await Promise.all(Object.keys(parts).map((name) => world.resolve([name], limits)))
        expect(together.results).toEqual(alone.flatMap(({ results }) => results))
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('findCycle finds a cycle exactly when some path returns to its start', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat(7), async (parts, first) => {
        const start = Object.keys(parts).at(first)
        fc.pre(start !== undefined)
        const next = (name: string) =>
          (parts[name] ?? [])
            .flatMap((part) => ('key' in part ? [`${part.environment ?? name.split('/')[0]}/K${part.key}`] : []))
            .filter((target) => parts[target])
        const comesBack = (name: string, seen: readonly string[]): boolean =>
          next(name).some(
            (target) => target === start || (!seen.includes(target) && comesBack(target, [...seen, target])),
          )

        const world = createWorld(
          Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, writeParts(value)])),
        )
        const cycle = await world.cycle([start])
        expect(cycle !== undefined).toBe(comesBack(start, []))
        cycle?.forEach((name, index) => {
          expect(next(name)).toContain(cycle[(index + 1) % cycle.length])
        })
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('text without references is returned unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), modes, async (raw, onUnresolved) => {
        const value = raw.replaceAll('${', '')
        fc.pre(!value.includes('${'))
        expect(await resolveFirst({ 'dev/A': value }, { onUnresolved })).toEqual({ value, unresolved: [] })
      }),
      { numRuns: times(200, 2_000) },
    )
  })
})
