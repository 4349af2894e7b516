/** `.coffer.json` in a folder with a hostile name. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'

test('the name of a folder does not steer the terminal', async () => {
  const shell = openShell()
  const cwd = join(shell.cwd, '\u001b[31mred')
  mkdirSync(cwd)
  writeFileSync(join(cwd, '.coffer.json'), '{ "url": "http://127.0.0.1:1" }')
  const { code, err } = await shell.coffer(['login'], { cwd })
  expect(code).toBe(3)
  expect(err).toContain('\\u001b[31mred')
  expect(err).not.toContain('\u001b')
})
