/** Sessions in a real keychain: the Secret Service of GNOME on a message bus of its own. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { installPackages, isInstalled, requirePrograms } from '../../../test/debian-package.ts'
import { password } from '../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { until } from '../../../test/wait.ts'

// The names of these packages are not those of their programs.
if (!isInstalled('gnome-keyring-daemon')) installPackages(['dbus-daemon', 'gnome-keyring'])
await requirePrograms('dbus-daemon', 'gnome-keyring-daemon')

let running: SdkService
let url: string
beforeAll(async () => {
  running = await startSdkService()
  url = running.service.url
  await running.write({ GREETING: 'canary-greeting' })
})
afterAll(() => running.stop())

type Bus = { readonly DBUS_SESSION_BUS_ADDRESS: string }

async function startBus(shell: Shell, services: string): Promise<Bus> {
  const bus = spawn('dbus-daemon', ['--session', '--nofork', '--print-address'], {
    env: { PATH: process.env.PATH, HOME: shell.home, XDG_DATA_DIRS: services },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => void bus.kill())
  let address = ''
  bus.stdout.setEncoding('utf8').on('data', (text: string) => {
    address += text
  })
  await until(() => address.endsWith('\n') || undefined, 120_000, 'the message bus runs')
  return { DBUS_SESSION_BUS_ADDRESS: address.trim() }
}

/** Empty and unlocked. */
async function startKeychain(shell: Shell): Promise<Bus> {
  const bus = await startBus(shell, join(shell.home, 'none'))
  const args = [
    '--foreground',
    '--unlock',
    '--components=secrets',
    `--control-directory=${join(shell.home, 'control')}`,
  ]
  const keychain = spawn('gnome-keyring-daemon', args, {
    env: { PATH: process.env.PATH, HOME: shell.home, ...bus },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  onTestFinished(() => void keychain.kill())
  keychain.stdin.end('password of the keychain')
  const isUnlocked = () => existsSync(join(shell.home, '.local/share/keyrings/login.keyring')) || undefined
  await until(isUnlocked, 120_000, 'the keychain is unlocked')
  return bus
}

/** A keychain that never answers. */
function startSilentKeychain(shell: Shell): Promise<Bus> {
  const services = join(shell.home, 'share/dbus-1/services')
  mkdirSync(services, { recursive: true })
  const service = '[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/sleep 20\n'
  writeFileSync(join(services, 'org.freedesktop.secrets.service'), service)
  return startBus(shell, join(shell.home, 'share'))
}

async function signIn(shell: Shell, env: Bus): Promise<string> {
  const session = shell.terminal(['login', url, '--email', 'owner@example.com', '-v'], { env })
  await session.see('Password of')
  session.type(`${password}\r`)
  expect(await session.ended).toMatchObject({ code: 0 })
  return session.screen()
}

const config = (shell: Shell, name: string) => join(shell.home, '.config/coffer', name)
const readLogin = (shell: Shell) => JSON.parse(readFileSync(config(shell, 'logins.json'), 'utf8')).byUrl[url]

test('keeps the session and the key of the offline cache in the keychain, and logout removes them', async () => {
  const shell = openShell()
  const env = await startKeychain(shell)
  const place = { ...env, COFFER_PROJECT: 'api', COFFER_ENVIRONMENT: 'development' }
  expect(await signIn(shell, env)).toContain('kept in the keychain')
  expect(readLogin(shell)).toEqual({
    email: 'owner@example.com',
    userId: expect.any(String),
    workspace: 'main',
    store: 'keychain',
  })
  expect(JSON.parse((await shell.coffer(['whoami', '--json'], { env })).out).credential.type).toBe('cli')
  expect((await shell.coffer(['doctor'], { env: place })).out).toContain('the next login is kept there')

  const command = ['--', 'sh', '-c', 'printf %s "$GREETING"']
  expect((await shell.coffer(['run', ...command], { env: place })).out).toBe('canary-greeting')
  expect((await shell.coffer(['run', '--offline', ...command], { env: place })).out).toBe('canary-greeting')
  expect(existsSync(config(shell, 'key'))).toBe(false)
  // Without the keychain the cache cannot be decrypted.
  const without = { COFFER_PROJECT: 'api', COFFER_ENVIRONMENT: 'development' }
  expect(await shell.coffer(['run', '--offline', ...command], { env: without })).toMatchObject({ code: 125, out: '' })
  const files = readdirSync(shell.home, { recursive: true, encoding: 'utf8' }).map((name) => join(shell.home, name))
  const written = files.filter((path) => statSync(path).isFile()).map((path) => readFileSync(path, 'latin1'))
  expect(written.join()).not.toMatch(/canary-greeting|coffer_sess/)

  expect(await shell.coffer(['logout'], { env })).toMatchObject({ code: 0 })
  writeFileSync(
    config(shell, 'logins.json'),
    JSON.stringify({ byUrl: { [url]: { email: 'e', userId: 'u', workspace: 'main', store: 'keychain' } } }),
  )
  expect((await shell.coffer(['whoami', '--url', url], { env })).err).toContain('has no such entry')
})

test('a keychain that never answers does not block the login', async () => {
  const shell = openShell()
  expect(await signIn(shell, await startSilentKeychain(shell))).toContain('kept in a file that only you can read')
  expect(readLogin(shell).store).toBe('file')
})
