import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { password } from '../../../test/harness.ts'
import { json, type SdkService, startScripted, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
let url: string
beforeAll(async () => {
  running = await startSdkService()
  url = running.service.url
})
afterAll(() => running.stop())

const loginFile = (shell: Shell) => join(shell.home, '.config/coffer/logins.json')

test('needs a person at a terminal, and says at once what to do instead', async () => {
  const shell = openShell()
  expect(await shell.coffer(['login', '-q'])).toEqual({
    code: 3,
    signal: null,
    out: '',
    err: 'coffer: A login needs a person at a terminal.\ntry: coffer login http://localhost:8080 in a terminal, or set COFFER_TOKEN\n',
  })
  expect((await shell.coffer(['login'])).err).toContain('Service: http://localhost:8080 (the default address)')
  for (const env of [{ CI: 'true' }, { COFFER_NO_INPUT: '1' }]) {
    expect(await shell.terminal(['login', url], { env }).ended).toMatchObject({ code: 3 })
  }
  expect(existsSync(loginFile(shell))).toBe(false)
})

test.each(['ftp://x', 'http://user:canary@x', 'http://x?q=canary', 'http://', 'a b'])(
  'refuses the address %s without repeating it',
  async (address) => {
    const { code, err } = await openShell().coffer(['login', address])
    expect(code).toBe(2)
    expect(err).toContain('must be an http(s) URL')
    expect(err).not.toContain('canary')
  },
)

test.each([
  ['is another program', json(200, 'x', { 'content-type': 'text/html' }), 1, 'is not a Coffer service'],
  ['answers 404', json(404, { message: 'Not found.' }), 1, 'is not a Coffer service'],
  ['has another shape', json(200, { hello: 'world' }), 1, 'is not a Coffer service'],
  ['redirects', json(302, {}, { location: 'http://127.0.0.1:1' }), 1, 'is not a Coffer service'],
  ['limits requests', json(429, { message: 'Rate limit exceeded.' }, { 'retry-after': '900' }), 8, 'Rate limit'],
  ['hangs', () => undefined, 7, 'has not answered within 5 seconds'],
] as const)('asks for no password if the service %s', async (_, respond, code, message) => {
  const { url: address } = await startScripted(respond)
  const session = openShell().terminal(['login', address])
  expect(await session.ended).toMatchObject({ code })
  expect(session.screen()).toContain(message)
  expect(session.screen()).not.toContain('Password')
})

test.each([
  ['no home', { HOME: '' }, 'HOME is not set'],
  ['a home that cannot be written to', { HOME: '/sys' }, 'cannot be written'],
  ['a home in /proc', { HOME: '/proc/none' }, 'cannot be written'],
  ['no keychain though it is wanted', {}, 'There is no keychain here'],
])('refuses %s before it asks anything', async (_, env, message) => {
  const args = message.includes('keychain') ? ['--store', 'keychain'] : []
  const session = openShell().terminal(['login', url, ...args], { env })
  expect(await session.ended).toMatchObject({ code: 1 })
  expect(session.screen()).toContain(message)
  expect(session.screen()).not.toContain('Email')
})

test('gives up after three wrong passwords, and Ctrl-C and Ctrl-D end a question', async () => {
  const shell = openShell()
  const session = shell.terminal(['login', url, '--email', 'stranger@example.com'])
  for (const attempt of [1, 2, 3]) {
    await session.see('Password of stranger@example.com')
    session.type(`wrong password ${attempt}\r`)
    await session.see('The email address or the password is wrong.')
  }
  expect(await session.ended).toMatchObject({ code: 3 })
  const cancelled = shell.terminal(['login', url, '--email', 'stranger@example.com'])
  await cancelled.see('Password of')
  cancelled.type('half a pass\u0003')
  expect(await cancelled.ended).toMatchObject({ code: 130 })
  const left = shell.terminal(['login', url, '--email', 'stranger@example.com'])
  await left.see('Password of')
  left.type('\u0004')
  await left.see('coffer: Cancelled.')
  expect(await left.ended).toMatchObject({ code: 130 })
  expect(session.screen() + cancelled.screen()).not.toMatch(/wrong password|half a pass/)
  expect(existsSync(loginFile(shell))).toBe(false)
})

async function signIn(shell: Shell, env: Record<string, string> = {}): Promise<string> {
  const session = shell.terminal(['login', url, '--email', 'owner@example.com', '-v'], { env })
  await session.see('Password of')
  session.type(`${password}\r`)
  expect(await session.ended).toMatchObject({ code: 0 })
  return session.screen()
}

test('replaces a damaged login file, keeps other logins, and says that a token wins', async () => {
  const shell = openShell()
  mkdirSync(join(shell.home, '.config/coffer'), { recursive: true })
  writeFileSync(loginFile(shell), '{"byUrl"', { mode: 0o644 })
  const screen = await signIn(shell, { COFFER_TOKEN: 'coffer_live_x' })
  expect(screen).toContain('COFFER_TOKEN is set: commands use it instead of this login.')
  expect(screen).toContain('next: coffer init')
  const other = { email: 'e', userId: 'u', store: 'file', session: 's' }
  const logins = JSON.parse(readFileSync(loginFile(shell), 'utf8'))
  writeFileSync(loginFile(shell), JSON.stringify({ ...logins, byUrl: { ...logins.byUrl, 'http://other': other } }))
  await signIn(shell)
  expect(Object.keys(JSON.parse(readFileSync(loginFile(shell), 'utf8')).byUrl).toSorted()).toEqual([
    url,
    'http://other',
  ])
  expect(readdirSync(join(shell.home, '.config/coffer'))).toEqual(['logins.json'])
})

test('says that the folder uses another service', async () => {
  const shell = openShell()
  const file = join(shell.cwd, '.coffer.json')
  writeFileSync(file, '{"url":"http://other.example.com/"}')
  const screen = await signIn(shell)
  expect(screen).toContain(`${file} names another service, http://other.example.com: commands here use that one.`)
  expect(screen).toContain(`try: coffer init --force --url ${url} -w main`)
})

test.each([[[]], [['--no-browser']]])('says that the page for the login cannot be opened, with %j', async (flags) => {
  const session = openShell().terminal(['login', url, ...flags])
  await session.see('There is no page at http://localhost:8080/device; the login goes on here.')
  await session.see('Email address')
  session.type('\u0003')
  expect(await session.ended).toMatchObject({ code: 130 })
})

test('a session in a keychain that has gone is explained', async () => {
  const shell = openShell()
  await signIn(shell)
  const { byUrl } = JSON.parse(readFileSync(loginFile(shell), 'utf8'))
  const { session: _, ...login } = byUrl[url]
  writeFileSync(loginFile(shell), JSON.stringify({ byUrl: { [url]: { ...login, store: 'keychain' } }, lastUrl: url }))
  expect(await shell.coffer(['whoami'])).toMatchObject({
    code: 3,
    err: expect.stringContaining('The keychain does not'),
  })
  expect(await shell.coffer(['logout'])).toMatchObject({ code: 7 })
  expect(await shell.coffer(['whoami'])).toMatchObject({
    code: 3,
    err: expect.stringContaining('You are not signed in'),
  })
})

test('opens the page of the device login, and takes the session once somebody approves it', async () => {
  const page = await startScripted((response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'))
  const paged = await startSdkService({ COFFER_PUBLIC_URL: page.url })
  onTestFinished(() => paged.stop())
  const shell = openShell()
  const bin = join(shell.home, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$@" > ${shell.home}/opened\n`)
  chmodSync(join(bin, 'xdg-open'), 0o755)
  const env = { DISPLAY: ':9', PATH: `${bin}:${process.env.PATH}` }
  const answer = async (userCode: string, approve: boolean) =>
    paged.service.call('POST', '/v1/auth/device/approve', { token: paged.session, body: { userCode, approve } })
  const codeOf = (screen: string) => /this code: (\S+)/.exec(screen)?.[1] ?? ''

  const session = shell.terminal(['login', paged.service.url], { env })
  await session.see(`A browser opens ${page.url}/device`)
  await session.see(/this code: \S+\r?\n/)
  const code = codeOf(session.screen())
  expect(readFileSync(join(shell.home, 'opened'), 'utf8')).toBe(`${page.url}/device#code=${code}\n`)
  expect(page.requests).toEqual(['GET /device'])

  const elsewhere = shell.terminal(['login', paged.service.url, '--no-browser'])
  await elsewhere.see(`Open this page in a browser: ${page.url}/device#code=`)
  await elsewhere.see(/this code: \S+\r?\n/)
  const stopped = shell.terminal(['login', paged.service.url, '--no-browser'])
  await stopped.see('this code')
  stopped.type('\u0003')
  expect((await stopped.ended).code).toBe(130)

  await answer(code, true)
  await answer(codeOf(elsewhere.screen()), false)
  await session.see('Signed in to')
  expect(await session.ended).toMatchObject({ code: 0 })
  expect(await elsewhere.ended).toMatchObject({ code: 4 })
  expect(JSON.parse((await shell.coffer(['whoami', '--json'])).out)).toMatchObject({ credential: { type: 'cli' } })
})

test('asks at the terminal if no browser can be opened', async () => {
  const page = await startScripted((response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'))
  const paged = await startSdkService({ COFFER_PUBLIC_URL: page.url })
  onTestFinished(() => paged.stop())
  const shell = openShell()
  const bin = join(shell.home, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'xdg-open'), '#!/bin/sh\nexit 3\n')
  chmodSync(join(bin, 'xdg-open'), 0o755)
  for (const env of [{}, { DISPLAY: ':9', PATH: `${bin}:${process.env.PATH}` }]) {
    const session = shell.terminal(['login', paged.service.url], { env })
    await session.see('No browser can be opened; the login goes on here.')
    await session.see('Email address')
    session.type('\u0003')
    expect(await session.ended).toMatchObject({ code: 130 })
  }
})
