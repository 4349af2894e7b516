/** `npx coffer` in a checkout, for an application in another folder: the real npx, from the root of the repository. */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell } from '../../test/cli.ts'
import { password } from '../../test/harness.ts'
import { startNpm } from '../../test/program.ts'
import { type SdkService, startSdkService } from '../../test/sdk-service.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ KEY: 'value' })
})
afterAll(() => running.stop())

/** `npm exec` is npx. */
function npx(args: readonly string[], env: Record<string, string>) {
  const { ended, endGroup } = startNpm(['exec', '--offline', '--', 'coffer', ...args], env)
  onTestFinished(endGroup)
  return ended
}

test('the command has the environment of the person, and nothing of npm and of the checkout', async () => {
  const { home, cwd } = openShell()
  // The tests themselves may have been started by npm, which leaves out folders that are there twice.
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => !/node_modules/.test(folder))
  const env: Record<string, string> = {
    ...running.env,
    PATH: [...new Set([join(home, 'bin'), ...folders])].join(':'),
    HOME: home,
    OTHER: 'kept',
    EDITOR: 'nano',
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
  }
  const environmentOf = async (flags: readonly string[]) => {
    const print = ['--', process.execPath, '-p', 'JSON.stringify(process.env)']
    const { code, out } = await npx(['-C', cwd, 'run', ...flags, ...print], env)
    expect(code).toBe(0)
    // A shell between npm and this program sets PWD.
    const { PWD: _, NODE_COMPILE_CACHE: __, ...seen } = JSON.parse(out)
    return seen
  }
  const { COFFER_TOKEN: _, ...visible } = env
  expect(await environmentOf([])).toEqual({ ...visible, KEY: 'value' })
  expect(await environmentOf(['--pristine', '--preserve-env=PATH,NODE'])).toEqual({ PATH: env.PATH, KEY: 'value' })
  // Without a variable PATH, programs are looked for in that of the person.
  expect(await npx(['-C', cwd, 'run', '--pristine', '--', 'rolldown', '--version'], env)).toMatchObject({ code: 127 })
})

test('variables of npm stay for a command that npm runs without npx', async () => {
  const shell = openShell(running.env)
  const env = { npm_lifecycle_event: 'dev', npm_package_name: 'my-app', INIT_CWD: shell.cwd }
  const { out } = await shell.coffer(['run', '--', '/usr/bin/env'], { env })
  for (const [name, value] of Object.entries(env)) expect(out).toContain(`${name}=${value}\n`)
})

test.each([
  [{}, [], 'coffer init'],
  [{}, ['-C', '.'], 'coffer -C . init'],
  [{ npm_lifecycle_event: 'npx' }, [], 'npx coffer init'],
  [{ npm_lifecycle_event: 'npx' }, ['-C', "it's here"], "npx coffer -C 'it'\\''s here' init"],
] as const)('after a login with %j and %j the hint is %s', async (env, args, hint) => {
  const shell = openShell({ COFFER_TOKEN: '', COFFER_URL: running.service.url })
  mkdirSync(join(shell.cwd, "it's here"))
  const session = shell.terminal([...args, 'login', '--email', 'owner@example.com'], { env })
  await session.see('Password of owner@example.com')
  session.type(`${password}\r`)
  expect(await session.ended).toMatchObject({ code: 0 })
  expect(session.screen()).toContain(`next: ${hint}\r\n`)
  expect(existsSync(join(shell.cwd, '.coffer.json'))).toBe(false)
})
