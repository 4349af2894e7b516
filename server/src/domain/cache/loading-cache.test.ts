import { expect, test } from 'vitest'
import { createRecall } from './loading-cache.ts'

/** Loads that end when the test says so. */
function slowRecall(max = 10) {
  const loads: ((value: string) => void)[] = []
  const recall = createRecall<string>(max, () => new Promise((resolve) => void loads.push(resolve)))
  return { recall, loads, endLoad: (index: number, value: string) => loads[index]?.(value) }
}

test.each([
  ['dropped', 'drop'],
  ['cleared', 'clear'],
] as const)(
  'what is %s while it is loaded is not remembered, and the next who asks loads it anew',
  async (_, forget) => {
    const { recall, endLoad } = slowRecall()
    const before = recall.get('a')
    recall[forget]('a')
    const after = recall.get('a')
    endLoad(0, 'as it was before')
    expect(await before).toBe('as it was before')
    expect(recall.peek('a')).toBeUndefined()
    endLoad(1, 'as it is')
    expect(await after).toBe('as it is')
    expect(recall.peek('a')).toBe('as it is')
  },
)

test('many who ask at once share one load', async () => {
  const { recall, loads, endLoad } = slowRecall()
  const asked = [recall.get('a'), recall.get('a'), recall.get('a')]
  expect(loads).toHaveLength(1)
  endLoad(0, 'once')
  expect(await Promise.all(asked)).toEqual(['once', 'once', 'once'])
})

test('a load that fails is tried again by the next who asks', async () => {
  let isAway = true
  const recall = createRecall(10, async () => {
    if (isAway) throw new Error('away')
    return 'there'
  })
  await expect(recall.get('a')).rejects.toThrow('away')
  isAway = false
  expect(await recall.get('a')).toBe('there')
})

test('the least recently used is forgotten first', async () => {
  const recall = createRecall(2, async (key) => key)
  await recall.get('a')
  await recall.get('b')
  recall.peek('a')
  await recall.get('c')
  expect(['a', 'b', 'c'].filter((key) => recall.peek(key))).toEqual(['a', 'c'])
})
