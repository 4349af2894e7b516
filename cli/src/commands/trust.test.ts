/** Credentials are sent to services that the person has named, never to one that only a folder names. */
import { chownSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { json, startScripted } from '../../../test/sdk-service.ts'
import { until } from '../../../test/wait.ts'

const refusal = json(401, { message: 'no' })
const place = { workspace: 'main', project: 'api', environment: 'development' }

/** A clone whose `.coffer.json` names a service that counts requests. */
async function openClone(env: Record<string, string> = {}) {
  const { url, requests } = await startScripted(refusal)
  const shell = openShell({ COFFER_NO_INPUT: '1', ...env })
  const file = join(shell.cwd, '.coffer.json')
  writeFileSync(file, JSON.stringify({ url, ...place }))
  return { shell, url, requests, file }
}

const credentials = {
  COFFER_TOKEN: { COFFER_TOKEN: 'coffer_live_x' },
  COFFER_TOKEN_FILE: { COFFER_TOKEN_FILE: '/dev/null' },
  COFFER_ID_TOKEN: { COFFER_ID_TOKEN: 'header.claims.signature' },
  COFFER_ID_TOKEN_FILE: { COFFER_ID_TOKEN_FILE: '/dev/null' },
  'the identity of GitHub Actions': {
    ACTIONS_ID_TOKEN_REQUEST_URL: 'http://127.0.0.1:1',
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'x',
  },
}

test.each(Object.entries(credentials))('%s is not sent to a service that only a folder names', async (name, env) => {
  const { shell, url, requests, file } = await openClone(env)
  const { code, out, err } = await shell.coffer(['whoami'])
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain(`coffer: ${name}`)
  expect(err).toContain(`is not sent to ${url}, which only ${file} names: COFFER_URL is required beside it.\n`)
  expect(err).toContain(`try: set COFFER_URL, or coffer trust ${url} if this is your service\n`)
  expect(requests).toEqual([])
})

test('no command sends it, the Tab key neither', async () => {
  const { shell, requests } = await openClone(credentials.COFFER_TOKEN)
  for (const args of [
    ['run', '--', 'true'],
    ['export'],
    ['secrets', 'list'],
    ['secrets', 'set', 'A=1'],
    ['import', '-'],
    ['share', 'KEY'],
    ['token', 'list'],
    ['init', '--force', '-p', 'api', '-e', 'development'],
    ['explain', 'owner@example.com', 'secret:read'],
    ['sync', 'status'],
  ]) {
    const { code, err } = await shell.coffer(args, { input: 'A=1\n' })
    expect({ args, code, err }).toEqual({ args, code: args[0] === 'run' ? 125 : 2, err: expect.any(String) })
    expect(err).toContain('COFFER_URL is required')
  }
  expect(await shell.coffer(['status'])).toMatchObject({ code: 0, out: expect.stringContaining('COFFER_URL is req') })
  expect(await shell.coffer(['doctor'])).toMatchObject({ code: 1 })
  for (const words of [
    ['whoami', '-p', ''],
    ['secrets', 'get', ''],
    ['run', '-e', ''],
  ]) {
    expect(await shell.coffer(['__complete', '--', ...words])).toMatchObject({ code: 0, out: '', err: '' })
  }
  // The check of the doctor carries no credential.
  expect(requests).toEqual(['GET /v1/auth/state'])
})

test('the Tab key asks no address on the line either, but asks COFFER_URL', async () => {
  const { url, requests } = await startScripted(refusal)
  const shell = openShell(credentials.COFFER_TOKEN)
  const words = ['__complete', '--', '--url', url, '-w', 'main', 'whoami', '-p', '']
  await shell.coffer(words)
  expect(requests).toEqual([])
  // On a busy machine a request may take longer than a person waits.
  const ask = async () => {
    await shell.coffer(words, { env: { COFFER_URL: url } })
    return requests[0]
  }
  expect(await until(ask, 60_000, 'the service is asked')).toBe('GET /v1/workspace/main/project')
})

test('COFFER_URL names a service for it, and --url only where COFFER_URL names none', async () => {
  const { shell, url, requests } = await openClone(credentials.COFFER_TOKEN)
  expect(await shell.coffer(['whoami'], { env: { COFFER_URL: `${url}/` } })).toMatchObject({ code: 3 })
  expect(await shell.coffer(['whoami', '--url', url])).toMatchObject({ code: 3 })
  expect(requests).toHaveLength(2)
  const other = { COFFER_URL: 'http://127.0.0.1:1' }
  const { code, err } = await shell.coffer(['whoami', '--url', url], { env: other })
  expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('which only --url names') })
  expect(requests).toHaveLength(2)
})

test('coffer trust confirms an origin, lists it, and withdraws it', async () => {
  const { shell, url, requests } = await openClone(credentials.COFFER_TOKEN)
  expect(await shell.coffer(['trust', url])).toMatchObject({ code: 0, err: `Credentials may be sent to ${url}.\n` })
  expect((await shell.coffer(['trust', '--list'])).out).toBe(`${url}\tcoffer trust\n`)
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 3 })
  // By origin: the path is a part of none, the port is.
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ url: `${url}/below`, ...place }))
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 3 })
  expect(requests).toEqual(['GET /v1/me', 'GET /below/v1/me'])
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ url: 'http://127.0.0.1:1', ...place }))
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 2 })
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ url, ...place }))
  expect(await shell.coffer(['trust', '--remove', url])).toMatchObject({ code: 0 })
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 2 })
  expect(requests).toHaveLength(2)
  expect((await shell.coffer(['trust', '--list', '--json'])).out).toBe('[]\n')
})

test.each([
  { args: ['trust'], err: 'There is nobody to ask here: May your credentials be sent to' },
  { args: ['trust', 'https://user:x@example.com'], err: 'must be an http(s) URL without user' },
  { args: ['trust', 'file:///etc'], err: 'must be an http(s) URL' },
  { args: ['trust', '--remove'], err: '--remove needs a URL.' },
  { args: ['trust', '--list', 'https://example.com'], err: '--list stands alone.' },
])('refuses $args', async ({ args, err }) => {
  const { shell } = await openClone()
  expect(await shell.coffer(args)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(err) })
  expect((await shell.coffer(['trust', '--list'])).out).toBe('')
})

test('in a terminal it asks about the service of the folder, and the Enter key means no', async () => {
  const { shell, url, file } = await openClone()
  const env = { COFFER_NO_INPUT: undefined }
  const question = `May your credentials be sent to ${url}, which ${file} names?`
  const refused = shell.terminal(['trust'], { env })
  await refused.see(question)
  refused.type('\r')
  expect(await refused.ended).toMatchObject({ code: 130 })
  expect((await shell.coffer(['trust', '--list'])).out).toBe('')
  const confirmed = shell.terminal(['trust'], { env })
  await confirmed.see(question)
  confirmed.type('y')
  expect(await confirmed.ended).toMatchObject({ code: 0 })
  expect((await shell.coffer(['trust', '--list'])).out).toBe(`${url}\tcoffer trust\n`)
})

test('a login that only the folder names is confirmed first', async () => {
  const { shell, url, requests } = await openClone()
  const session = shell.terminal(['login'], { env: { COFFER_NO_INPUT: undefined } })
  await session.see(`You have not used ${url} before. Sign in there?`)
  session.type('\r')
  expect(await session.ended).toMatchObject({ code: 130 })
  expect(requests).toEqual([])
})

test('a share of somebody else gets no credential', async () => {
  const headers: (string | undefined)[] = []
  const { url } = await startScripted((response, request) => {
    headers.push(request.headers.authorization)
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"message":"Not found."}')
  })
  const shell = openShell({ ...credentials.COFFER_TOKEN, COFFER_URL: url })
  expect(await shell.coffer(['share', '--yes', `--open=${url}/share/abcdefgh#x`])).toMatchObject({ code: 5 })
  expect(headers).toEqual([undefined])
})

const plain = 'http://coffer.example.test:1'

test('plain http goes to this machine only, unless the person allows it', async () => {
  const shell = openShell({ ...credentials.COFFER_TOKEN, COFFER_URL: plain })
  const shared = ['share', '--yes', '--open=https://example.test/share/abcdefgh#x', '--url']
  for (const args of [
    ['whoami'],
    ['share', '--yes', `--open=${plain}/share/abcdefgh#x`],
    [...shared, plain.toUpperCase()],
    [...shared, ` ${plain}`],
    ['login'],
  ]) {
    const { code, err } = args[0] === 'login' ? await inTerminal(shell, args) : await shell.coffer(args)
    expect({ args, code, err }).toMatchObject({ args, code: 2, err: expect.stringContaining('is plain http: others') })
  }
  expect(await shell.coffer(['run', '--', 'true'])).toMatchObject({ code: 125 })
  // It is asked, and does not exist.
  expect(await shell.coffer(['whoami', '--allow-http'])).toMatchObject({ code: 7 })
  expect(await shell.coffer(['whoami'], { env: { COFFER_ALLOW_HTTP: '1' } })).toMatchObject({ code: 7 })
  expect(await shell.coffer(['whoami'], { env: { COFFER_ALLOW_HTTP: '0' } })).toMatchObject({ code: 2 })
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ allowHttp: true }))
  expect(await shell.coffer(['whoami'])).toMatchObject({ code: 2, err: expect.stringContaining('not a known field') })
})

async function inTerminal(shell: Shell, args: readonly string[]) {
  const { code, out } = await shell.terminal(args).ended
  return { code, err: out }
}

test.each([
  ['http://localhost.example.test:1', 2],
  ['http://127.0.0.1.example.test:1', 2],
  ['http://[::2]:1', 2],
  ['http://127.1:1', 7],
  ['http://[::1]:1', 7],
  ['http://localhost:1', 7],
])('plain http to %s ends with %i', async (COFFER_URL, code) => {
  const shell = openShell({ ...credentials.COFFER_TOKEN, COFFER_URL })
  expect(await shell.coffer(['whoami'])).toMatchObject({ code })
})

test.runIf(process.getuid?.() === 0)('files of another user are refused, as git refuses repositories', async () => {
  const { shell, url, file } = await openClone({ ...credentials.COFFER_TOKEN })
  const env = { COFFER_URL: url }
  const whoami = async (cwd: string, more = {}) => shell.coffer(['whoami'], { cwd, env: { ...env, ...more } })
  chownSync(file, 12_345, 12_345)
  const below = join(shell.cwd, 'below')
  mkdirSync(below)
  for (const owner of [0, 12_345]) {
    chownSync(shell.cwd, owner, owner)
    expect(await whoami(below)).toMatchObject({
      code: 2,
      err: expect.stringContaining(`${file} belongs to another user`),
    })
  }
  // As with git, root may be the person who has called sudo.
  expect(await whoami(below, { SUDO_UID: '12345' })).toMatchObject({ code: 3 })
  expect(await whoami(below, { SUDO_UID: '54321' })).toMatchObject({ code: 2 })
  // A link is the file of its owner, and of the owner of the file that it leads to.
  symlinkSync(file, join(below, '.coffer.json'))
  expect(await whoami(below)).toMatchObject({ code: 2 })
  chownSync(file, 0, 0)
  expect(await whoami(below)).toMatchObject({ code: 3 })
  expect(readFileSync(file, 'utf8')).toContain(url)
})
