import { globSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { deepOnly, perEngine } from './tier.ts'

test.each([...perEngine, ...deepOnly])('%s, which one tier runs differently, names files that are there', (pattern) => {
  expect(globSync(pattern, { cwd: join(import.meta.dirname, '..') })).not.toEqual([])
})
