import { globSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { perEngine } from './tier.ts'

test.each(perEngine)('%s, which the fast tier runs on both engines, names files that are there', (pattern) => {
  expect(globSync(pattern, { cwd: join(import.meta.dirname, '..') })).not.toEqual([])
})
