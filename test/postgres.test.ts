import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startNode } from './program.ts'

test.each([0, 1])('importing the PostgreSQL helper keeps the exit code of the process: %d', async (code) => {
  const script = `await import(${JSON.stringify(join(import.meta.dirname, 'postgres.ts'))}); process.exitCode = ${code}`
  const program = startNode(['--input-type=module', '--eval', script])
  expect(await program.ended).toMatchObject({ code, err: '' })
})
