/** The login file: several commands at the same time, and a file that others can read. */
import { execFile } from 'node:child_process'
import { chmodSync, chownSync, existsSync, statSync, writeFileSync } from 'node:fs'
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

test('a file that others can read or write is repaired by any command, which says so once', async () => {
  const shell = openShell()
  const env = { HOME: shell.home }
  const path = join(shell.home, '.config/coffer/logins.json')
  changeLogins(env, () => ({ byUrl: { 'http://127.0.0.1:1': login }, lastUrl: 'http://127.0.0.1:1' }))
  for (const mode of [0o644, 0o640, 0o602, 0o777]) {
    chmodSync(path, mode)
    const { code, err } = await shell.coffer(['status', '-q'])
    expect({ code, err }).toEqual({
      code: 0,
      err: `Other users could read ${path}, or write to it; now only you can.\ntry: coffer logout --all, then coffer login, if there are other users here\n`,
    })
    expect(statSync(path).mode & 0o777).toBe(mode & 0o700)
    expect(await shell.coffer(['status'])).toMatchObject({ code: 0, err: '' })
  }
  expect(Object.keys(readLogins(env).byUrl)).toEqual(['http://127.0.0.1:1'])
})

test.runIf(process.getuid?.() === 0)('a file of another user stays as it is', async () => {
  const shell = openShell()
  const path = join(shell.home, '.config/coffer/logins.json')
  changeLogins({ HOME: shell.home }, () => ({ byUrl: {} }))
  chownSync(path, 12_345, 12_345)
  chmodSync(path, 0o644)
  expect(await shell.coffer(['status'])).toMatchObject({ code: 0, err: '' })
  expect(statSync(path)).toMatchObject({ uid: 12_345, mode: 0o100644 })
})
