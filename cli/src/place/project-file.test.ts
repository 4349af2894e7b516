/** `.coffer.json` of somebody else. */
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { json, startScripted } from '../../../test/sdk-service.ts'

test.runIf(process.getuid?.() === 0)('a file that another user has put into a folder gets no token', async () => {
  const { url, requests } = await startScripted(json(401, { message: 'no' }))
  const shell = openShell({ COFFER_TOKEN: 'coffer_live_x' })
  const path = join(shell.cwd, '.coffer.json')
  writeFileSync(path, JSON.stringify({ url }))
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 3 })
  chownSync(path, 12_345, 12_345)
  const cwd = join(shell.cwd, 'below')
  mkdirSync(cwd)
  const refused = await shell.coffer(['whoami'], { cwd })
  expect(refused).toMatchObject({ code: 2, out: '' })
  expect(refused.err).toContain('belongs to another user')
  expect(requests).toHaveLength(1)
  // All of it is somebody's, such as a checkout that is mounted into a container.
  chownSync(shell.cwd, 12_345, 12_345)
  expect(await shell.coffer(['whoami'], { cwd })).toMatchObject({ code: 3 })
})

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
