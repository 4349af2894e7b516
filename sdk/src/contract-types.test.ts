import { readFileSync } from 'node:fs'
import { endpoints } from '@coffer/contract/api'
import { expect, test } from 'vitest'
import { generatedFiles } from '../generate.ts'
import { endpointTable } from './endpoint-table.ts'

test('the generated files are as "npm run generate" writes them', async () => {
  const files = await generatedFiles()
  expect(files.size).toBe(5)
  for (const [file, text] of files) expect(readFileSync(file, 'utf8'), `run "npm run generate": ${file}`).toBe(text)
})

test('every endpoint of the contract is in the table exactly once', () => {
  const rows = Object.values(endpointTable).flatMap((area) => Object.values(area))
  const listed = rows.map(([method, path]) => `${method} ${path}`).toSorted()
  expect(listed).toEqual(
    Object.values(endpoints)
      .map(({ method, path }) => `${method} ${path}`)
      .toSorted(),
  )
})
