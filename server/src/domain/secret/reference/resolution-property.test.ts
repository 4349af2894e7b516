// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references under test are written like template placeholders.
/** Resolution and the search for cycles agree with naive recursions, for any values. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test/any-character.ts'
import { createWorld, resolveFirst } from '../../../../../test/resolution-world.ts'
import { times } from '../../../../../test/tier.ts'
import { placeName } from './graph.ts'
import { type Reference, writeReferenceName } from './reference.ts'
import type { OnUnresolved } from './resolution.ts'

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
      fc.asyncProperty(fc.string({ unit: anyCharacter }), modes, async (raw, onUnresolved) => {
        const value = raw.replaceAll('${', '')
        fc.pre(!value.includes('${'))
        expect(await resolveFirst({ 'dev/A': value }, { onUnresolved })).toEqual({ value, unresolved: [] })
      }),
      { numRuns: times(200, 2_000) },
    )
  })
})
