/** `whoami`, `logout`, `status`, `init` and `open` against the real service. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { addUser } from '../../../test/harness.ts'
import { json, type SdkService, startScripted, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
let url: string
beforeAll(async () => {
  running = await startSdkService()
  url = running.service.url
})
afterAll(() => running.stop())

const clientId = 'coffer-cli'

/** A session of the command line, approved by the owner. */
async function newSession(service = running.service, session = running.session): Promise<string> {
  const { body: code } = await service.call<{ deviceCode: string; userCode: string }>('POST', '/v1/auth/device/code', {
    body: { clientId },
  })
  const answer = { userCode: code.userCode, approve: true }
  await service.call('POST', '/v1/auth/device/approve', { token: session, body: answer })
  const poll = { clientId, deviceCode: code.deviceCode }
  return (await service.call<{ accessToken: string }>('POST', '/v1/auth/device/token', { body: poll })).body.accessToken
}

type Entry = { readonly session: string; readonly workspace?: string }

function writeLogins(shell: Shell, byUrl: Record<string, Entry>, lastUrl = Object.keys(byUrl)[0]): string {
  const folder = join(shell.home, '.config/coffer')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'logins.json')
  const person = { email: 'owner@example.com', userId: 'u', workspace: 'main', store: 'file' }
  const logins = Object.fromEntries(Object.entries(byUrl).map(([one, entry]) => [one, { ...person, ...entry }]))
  writeFileSync(path, JSON.stringify({ byUrl: logins, lastUrl }), { mode: 0o600 })
  return path
}

async function signedIn(): Promise<{ shell: Shell; session: string; path: string }> {
  const shell = openShell()
  const session = await newSession()
  return { shell, session, path: writeLogins(shell, { [url]: { session } }) }
}

const statusOf = async (token: string) => (await running.service.call('GET', '/v1/me', { token })).status

test('whoami shows the person and the credential', async () => {
  const { shell } = await signedIn()
  const { out, code } = await shell.coffer(['whoami'])
  expect(code).toBe(0)
  expect(out.split('\t').slice(0, 5)).toEqual(['owner@example.com', 'Owner', url, 'cli', 'read-write'])
})

test('a forbidden call names the role that one has', async () => {
  const { body } = await running.service.call<{ id: string }>('GET', '/v1/workspace/main', { token: running.session })
  const membership = { workspaceId: body.id, role: 'member' } as const
  const { session } = await addUser(running.service, 'member@example.com', membership)
  const shell = openShell()
  writeLogins(shell, { [url]: { session: await newSession(running.service, session) } })
  const { code, err } = await shell.coffer(['secrets', 'set', 'A=1', '-p', 'api', '-e', 'development'])
  expect(code).toBe(4)
  expect(err).toContain('\ntry: ask an admin of the workspace; your role in main: member\n')
})

test('a session that was revoked at the service is explained, with the request id if asked', async () => {
  const { shell, session } = await signedIn()
  await running.service.call('POST', '/v1/auth/cli/logout', { token: session, body: {} })
  const { code, err } = await shell.coffer(['whoami', '-v'])
  expect(code).toBe(3)
  expect(err).toMatch(
    new RegExp(`^coffer: Your session at ${url} has ended: .*\ntry: coffer login ${url}\nrequest id: .+\n$`),
  )
})

test('a token that is not accepted is named, not shown', async () => {
  const env = { COFFER_URL: url, COFFER_TOKEN: 'coffer_live_canary' }
  const { code, err } = await openShell(env).coffer(['whoami'])
  expect({ code, err }).toEqual({
    code: 3,
    err: `coffer: ${url} does not accept COFFER_TOKEN: the token is wrong, expired or revoked.\ntry: coffer token create NAME\n`,
  })
})

test('logout ends the session, forgets it, and wipes the offline cache', async () => {
  const { shell, session, path } = await signedIn()
  const cache = join(shell.home, '.cache/coffer')
  mkdirSync(cache, { recursive: true })
  writeFileSync(join(cache, 'x'), 'x')
  expect(await shell.coffer(['logout'])).toMatchObject({ code: 0, out: '', err: `Signed out of ${url}.\n` })
  expect(await statusOf(session)).toBe(401)
  expect(readFileSync(path, 'utf8')).not.toContain(session)
  expect(existsSync(cache)).toBe(false)
  expect(await shell.coffer(['logout'])).toMatchObject({ code: 0, err: `You are not signed in to ${url}.\n` })
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 3 })
})

test('logout without a home has nothing to remove', async () => {
  const { code, err } = await openShell().coffer(['logout', '--all'], { env: { HOME: '/dev/null' } })
  expect({ code, err }).toEqual({ code: 0, err: 'You are not signed in.\n' })
})

test('logout forgets the session even if the service cannot be reached, and says so', async () => {
  const shell = openShell()
  const gone = 'http://127.0.0.1:1'
  const path = writeLogins(shell, { [gone]: { session: 'canary' } })
  const { code, err } = await shell.coffer(['logout'])
  expect(code).toBe(7)
  expect(err).toContain(`removed from this machine, but not ended at ${gone}: ${gone} cannot be reached (ECONNREFUSED)`)
  expect(readFileSync(path, 'utf8')).not.toContain('canary')
})

test('two services are used side by side, and logout --all leaves both', async () => {
  const other = await startSdkService()
  try {
    const shell = openShell()
    const sessions = [await newSession(), await newSession(other.service, other.session)]
    const byUrl = { [url]: { session: sessions[0] ?? '' }, [other.service.url]: { session: sessions[1] ?? '' } }
    const path = writeLogins(shell, byUrl, other.service.url)
    for (const [args, service] of [
      [[], other.service.url],
      [['--url', url], url],
      [['--url', `${url.toUpperCase().replace('HTTP', 'http')}/`], url],
    ] as const) {
      expect((await shell.coffer(['whoami', ...args])).out).toContain(`\t${service}\t`)
    }
    const { err } = await shell.coffer(['logout', '--all'])
    expect(err.split('\n').toSorted()).toEqual(
      ['', `Signed out of ${url}.`, `Signed out of ${other.service.url}.`].toSorted(),
    )
    expect(JSON.parse(readFileSync(path, 'utf8')).byUrl).toEqual({})
    expect(await statusOf(sessions[0] ?? '')).toBe(401)
  } finally {
    await other.stop()
  }
})

test.each(['', '{', 'null', '{"byUrl":7}', '{"byUrl":{"URL":{"session":7}}}', '{"byUrl":{"URL":null},"lastUrl":{}}'])(
  'a damaged login file %j counts as no login',
  async (text) => {
    const shell = openShell({ COFFER_URL: url })
    writeFileSync(writeLogins(shell, {}), text.replace('URL', url))
    expect(await shell.coffer(['whoami'])).toMatchObject({ code: 3, err: expect.stringContaining('not signed in') })
    expect(await shell.coffer(['logout'])).toMatchObject({ code: 0 })
  },
)

test('status shows where each setting comes from, as whom, and works without the service', async () => {
  const { shell, session } = await signedIn()
  const file = join(shell.cwd, '.coffer.json')
  writeFileSync(file, JSON.stringify({ project: 'api', environment: 'development' }))
  const env = { COFFER_ENVIRONMENT: 'staging' }
  const { out, code } = await shell.coffer(['status'], { env })
  expect(code).toBe(0)
  const rows = out.split('\n').map((line) => line.split('\t'))
  expect(rows).toEqual([
    ['service', url, 'the last login'],
    ['workspace', 'main', 'the last login'],
    ['project', 'api', file],
    ['environment', 'staging', 'COFFER_ENVIRONMENT'],
    ['signed in as', 'owner@example.com', 'the login file'],
    ['session', expect.stringMatching(/^valid until 20/), ''],
    ['.coffer.json', file, ''],
    ['offline cache', 'none: coffer run makes it', ''],
    ['unsaved edits', 'none', ''],
    ['left out by run', 'none', ''],
    [''],
  ])
  expect(out).not.toContain(session)
  const { code: ran } = await shell.coffer(['run', '--', 'true'])
  expect(ran).toBe(0)
  expect((await shell.coffer(['status'])).out).toMatch(/offline cache\t\d+ (s|min) old\t/)
  writeLogins(shell, { 'http://127.0.0.1:1': { session: 'x' } })
  const offline = JSON.parse((await shell.coffer(['status', '--json'])).out)
  expect(offline).toMatchObject({
    url: { value: 'http://127.0.0.1:1', from: 'the last login' },
    user: 'owner@example.com',
    state: expect.stringContaining('cannot be reached'),
  })
  expect(await openShell().coffer(['status'])).toMatchObject({ code: 0, out: expect.stringContaining('not signed in') })
})

test('init writes the file without a terminal if the flags name everything', async () => {
  const { shell } = await signedIn()
  const path = join(shell.cwd, '.coffer.json')
  const read = () => JSON.parse(readFileSync(path, 'utf8'))
  expect(await shell.coffer(['init', '-w', 'main', '-p', 'api', '-e', 'staging'])).toMatchObject({ code: 0, out: '' })
  expect(read()).toEqual({ url, workspace: 'main', project: 'api', environment: 'staging' })
  expect(await shell.coffer(['setup', '-p', 'api', '-e', 'development'])).toMatchObject({
    code: 2,
    err: `coffer: ${path} exists already.\ntry: coffer init --force\n`,
  })
  writeFileSync(path, JSON.stringify({ ...read(), run: { redact: true } }))
  expect(await shell.coffer(['init', '--force', '-e', 'development'])).toMatchObject({ code: 0 })
  expect(read()).toMatchObject({ project: 'api', environment: 'development', run: { redact: true } })
})

test.each([
  { args: ['-p', 'nothing', '-e', 'development'], code: 5, err: 'There is no project nothing' },
  { args: ['-p', 'api', '-e', 'nothing'], code: 5, err: 'has no environment nothing' },
  { args: ['-w', 'nothing', '-p', 'api', '-e', 'development'], code: 5, err: 'no workspace nothing' },
  { args: ['-e', 'development'], code: 2, err: 'There is nobody to ask here: Which project?' },
  { args: ['-p', 'api'], code: 2, err: 'There is nobody to ask here: Which environment' },
])('init refuses $args without a terminal, and creates nothing', async ({ args, code, err }) => {
  const { shell } = await signedIn()
  expect(await shell.coffer(['init', ...args])).toMatchObject({ code, out: '', err: expect.stringContaining(err) })
  expect(existsSync(join(shell.cwd, '.coffer.json'))).toBe(false)
})

test('init --create makes the project and the environment', async () => {
  const { shell } = await signedIn()
  const { code } = await shell.coffer(['init', '-p', 'made', '-e', 'preview', '--create'])
  expect(code).toBe(0)
  const { body } = await running.service.call<{ name: string }[]>(
    'GET',
    '/v1/workspace/main/project/made/environment',
    {
      token: running.session,
    },
  )
  expect(body.map(({ name }) => name)).toContain('preview')
})

test('init asks on a terminal, and creates what somebody asks for', async () => {
  const { shell } = await signedIn()
  const session = shell.terminal(['init'])
  await session.see('Which project?')
  await session.see(/● A new project: coffer-cwd-\w+/)
  session.type('\r')
  await session.see('Name of the new project')
  session.type('\u0015Bad Name\r')
  await session.see('2 to 48 small letters')
  session.type('\u0015asked-for\r')
  await session.see('Which environment')
  session.type('\r')
  await session.see('Wrote')
  expect(await session.ended).toMatchObject({ code: 0 })
  const file = JSON.parse(readFileSync(join(shell.cwd, '.coffer.json'), 'utf8'))
  expect(file).toMatchObject({ project: 'asked-for', environment: 'development' })

  const refused = shell.terminal(['init', '--force', '-p', 'not-there', '-e', 'development'])
  await refused.see('Create it?')
  refused.type('n')
  expect(await refused.ended).toMatchObject({ code: 5 })
  const cancelled = shell.terminal(['init', '--force'])
  await cancelled.see('Which project?')
  cancelled.type('\u0003')
  expect(await cancelled.ended).toMatchObject({ code: 130 })
  expect(JSON.parse(readFileSync(join(shell.cwd, '.coffer.json'), 'utf8'))).toEqual(file)
})

test('a member of several workspaces chooses one', async () => {
  const { body } = await running.service.call<{ id: string }>('GET', '/v1/workspace/main', { token: running.session })
  const person = await addUser(running.service, 'both@example.com', { workspaceId: body.id, role: 'developer' })
  const created = { name: 'Second', slug: 'second' }
  await running.service.call('POST', '/v1/workspace', { token: person.session, body: created })
  const shell = openShell({ COFFER_URL: url, COFFER_TOKEN: await newSession(running.service, person.session) })
  const session = shell.terminal(['init', '-p', 'api', '-e', 'development'])
  await session.see('Which workspace?')
  session.type(session.screen().indexOf('Main') < session.screen().indexOf('Second') ? '\r' : '\u001b[B\r')
  expect(await session.ended).toMatchObject({ code: 0 })
  expect(readFileSync(join(shell.cwd, '.coffer.json'), 'utf8')).toContain('"workspace": "main"')
})

test('open prints the page of the project, and opens it only if it is one', async () => {
  const page = await startScripted((response, request) => {
    const isPage = request.url === '/main/api'
    response.writeHead(isPage ? 200 : 404, { 'content-type': 'text/html' }).end('<p>')
  })
  const env = { COFFER_URL: page.url, COFFER_WORKSPACE: 'main', COFFER_PROJECT: 'api', COFFER_TOKEN: 'canary' }
  const shell = openShell(env)
  expect(await shell.coffer(['open', '--print'])).toMatchObject({ code: 0, out: `${page.url}/main/api\n`, err: '' })
  expect(page.requests).toEqual([])
  expect(await shell.coffer(['open'])).toMatchObject({ code: 0, out: `${page.url}/main/api\n` })
  expect(await shell.coffer(['open', '-p', 'other'])).toMatchObject({ code: 5, out: '' })

  const bin = join(shell.home, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$@" > ${shell.home}/opened; env >> ${shell.home}/opened\n`)
  chmodSync(join(bin, 'xdg-open'), 0o755)
  const screen = { DISPLAY: ':9', PATH: `${bin}:${process.env.PATH}` }
  expect(await shell.coffer(['open'], { env: screen })).toMatchObject({ code: 0, out: '' })
  const opened = readFileSync(join(shell.home, 'opened'), 'utf8')
  expect(opened).toContain(`${page.url}/main/api\n`)
  expect(opened).not.toContain('canary')
})

test('open says that the service has no dashboard, or that it cannot be reached', async () => {
  const { shell } = await signedIn()
  const { url: bare } = await startScripted(json(404, { message: 'Not found.' }))
  expect(await shell.coffer(['open', '--url', bare, '-w', 'main'])).toMatchObject({
    code: 5,
    out: '',
    err: `coffer: There is no page at ${bare}/main: the service runs without its dashboard.\ntry: ${bare}/docs, which describes the API\n`,
  })
  expect(await shell.coffer(['open', '--url', 'http://127.0.0.1:1'])).toMatchObject({
    code: 7,
    err: 'coffer: http://127.0.0.1:1 cannot be reached (ECONNREFUSED).\ntry: start it with coffer-server, or with npm start in a checkout\n',
  })
})

test('an empty token is named', async () => {
  const env = { COFFER_URL: url, COFFER_TOKEN: '' }
  const { code, err } = await openShell(env).coffer(['whoami'])
  expect({ code, err }).toEqual({
    code: 3,
    err: `coffer: COFFER_TOKEN is set but empty, and you are not signed in to ${url}.\ntry: set COFFER_TOKEN, or coffer login ${url}\n`,
  })
})

test.each([
  ['{"enviroment":"a"}', ': enviroment is not a known field. Did you mean environment?\n'],
  ['{"run":{"wach":true}}', ': run.wach is not a known field. Did you mean run.watch?\n'],
  ['{"colour":"red"}', ': colour is not a known field.\n'],
  ['{', ' is not JSON.\ntry: correct it, or remove it and coffer init\n'],
])('a project file %s is explained', async (text, message) => {
  const shell = openShell({ COFFER_URL: url })
  const file = join(shell.cwd, '.coffer.json')
  writeFileSync(file, text)
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 2, err: `coffer: ${file}${message}` })
})

test.each([
  [
    'sends garbage',
    { code: 1, err: 'coffer: The answer is not JSON.\n' },
    json(200, 'x', { 'content-type': 'text/html' }),
  ],
  [
    'is another one',
    { code: 1, err: 'coffer: The answer is not that of a Coffer service: check its address.\n' },
    json(200, { ok: true }),
  ],
  ['limits requests', { code: 8 }, json(429, { message: 'Rate limit exceeded.' }, { 'retry-after': '900' })],
] as const)('whoami ends with its own code if the service %s', async (_, expected, respond) => {
  const { url: address } = await startScripted(respond)
  const shell = openShell({ COFFER_URL: address, COFFER_TOKEN: 'coffer_live_x' })
  expect(await shell.coffer(['whoami'])).toMatchObject({ ...expected, out: '' })
})
