import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Context } from '../context.ts'
import { withBases } from './name-base.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const mebibyte = 1024 * 1024

const workspace = { id: 'main', name: 'Main', slug: 'main', createdAt: 0 }
const snapshot = { workspace, environments: new Map(), projects: new Map(), nameBases: new Map() }
// The cast is safe: the store is asked about references alone.
const ctx = {} as Pick<Context, 'store' | 'longWork'>

async function searchIn(projectId: string) {
  const names = Array.from({ length: 4_096 }, (_, index) => `${projectId}_${index}`.padEnd(253, '_'))
  const access = { snapshot, project: { id: projectId, environments: [] } }
  const read = { keys: names.slice(1), environments: [], environmentIds: [], referenced: [] }
  const { bases } = await withBases(ctx, access, read, () => names, [])
  return bases?.keys?.[0]?.list
}

test('two searches in unchanged data share one list', async () => {
  const first = await searchIn('api')
  expect(first?.text.length).toBeGreaterThan(mebibyte)
  expect(await searchIn('api')).toBe(first)
})

test('lists that no cached response holds any more take no memory, however many projects are searched', async () => {
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < 60; index++) await searchIn(`project-${index}`)
  // Weak references live until the end of the task.
  await new Promise(setImmediate)
  collectGarbage()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10 * mebibyte)
})
