/** The login file with several commands at the same time. */
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { changeLogins, readLogins } from './login-file.ts'

const login = { email: 'a@example.com', userId: 'user-1', store: 'file', session: 'x' } as const

test('commands that change it at the same time lose nothing, and a lock that was left behind is removed', async () => {
  const env = { HOME: openShell().home }
  const script = `
    const { changeLogins } = await import('${join(import.meta.dirname, 'login-file.ts')}')
    for (let index = 0; index < 20; index++) {
      const url = 'http://' + process.argv[1] + '.example.com:' + index
      changeLogins(process.env, ({ byUrl }) => ({ byUrl: { ...byUrl, [url]: ${JSON.stringify(login)} } }))
    }`
  const run = (name: string) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, name], { env })
  await Promise.all(['a', 'b', 'c'].map(run))
  expect(Object.keys(readLogins(env).byUrl)).toHaveLength(60)
  const lock = join(env.HOME, '.config/coffer/logins.json.lock')
  expect(existsSync(lock)).toBe(false)
  writeFileSync(lock, '')
  changeLogins(env, () => ({ byUrl: {} }))
  expect([readLogins(env), existsSync(lock)]).toEqual([{ byUrl: {} }, false])
})
