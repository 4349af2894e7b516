// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references under test are written like template placeholders.
/** A cycle of references is found wherever it is, and values with too many references are refused. */
import { describe, expect, test } from 'vitest'
import { createChain, createWorld } from '../../../../../test/resolution-world.ts'

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
