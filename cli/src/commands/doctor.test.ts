/** `coffer doctor`: what it finds, and what it advises. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { createProject, createToken } from '../../../test/harness.ts'
import { testCertificate, testPrivateKey } from '../../../test/outbound-certificate.ts'
import { json, type SdkService, startScripted, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
})
afterAll(() => running.stop())

type Variables = Readonly<Record<string, string | undefined>>
type Result = { readonly check: string; readonly state: string; readonly message: string; readonly try?: string }

async function examine(
  shell: Shell,
  env: Variables = {},
): Promise<{ code: number | null; checks: Map<string, Result> }> {
  const { code, out, err } = await shell.coffer(['doctor', '--json'], { env })
  expect(err).toBe('')
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Result[] }
  expect(ok).toBe(code === 0)
  return { code, checks: new Map(checks.map((one) => [one.check, one])) }
}

function writeLogins(shell: Shell, text: string, mode = 0o600): string {
  const folder = join(shell.home, '.config/coffer')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'logins.json')
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

test('finds nothing wrong where everything works', async () => {
  const { code, checks } = await examine(openShell(running.env))
  expect(code).toBe(0)
  expect([...checks.values()].map(({ check, state }) => `${check} ${state}`)).toEqual([
    'node ok',
    'login file ok',
    'keychain ok',
    '.coffer.json ok',
    'service ok',
    'encryption ok',
    'clock ok',
    'version ok',
    'credential ok',
    'project ok',
    'environment ok',
    'names ok',
    'offline cache ok',
  ])
  expect(checks.get('credential')?.message).toMatch(/^COFFER_TOKEN: .*, type static, read on everything$/)
  const { out } = await openShell(running.env).coffer(['doctor'])
  expect(out.split('\n')[0]).toMatch(/^ok\tnode\tNode /)
  expect(out).not.toContain(running.token)
})

test.each([
  ['no credential', { COFFER_TOKEN: undefined }, 'credential', 'coffer login'],
  ['a token that is not accepted', { COFFER_TOKEN: 'coffer_live_wrong' }, 'credential', 'coffer token create'],
  ['a project that is not there', { COFFER_PROJECT: 'nothing' }, 'project', 'set COFFER_WORKSPACE and COFFER_PROJECT'],
  ['an environment that is not there', { COFFER_ENVIRONMENT: 'nothing' }, 'environment', 'one of: development'],
  ['a service that is not there', { COFFER_URL: 'http://127.0.0.1:1' }, 'service', 'check the address'],
])('fails with %s', async (_, env, check, hint) => {
  const { code, checks } = await examine(openShell(running.env), env)
  expect(code).toBe(1)
  expect(checks.get(check)).toMatchObject({ state: 'fail', try: expect.stringContaining(hint) })
})

test('doctor, run and secrets list say alike what a token reaches', async () => {
  const { service, session, env } = running
  const { environments } = await createProject(service, session, 'shop')
  const production = environments.find(({ name }) => name === 'production')?.id ?? ''
  const { token } = await createToken(service, session, { permission: 'read', scope: { environments: [production] } })
  const shell = openShell({ COFFER_URL: env.COFFER_URL, COFFER_TOKEN: token })
  writeFileSync(join(shell.cwd, '.coffer.json'), '{"workspace":"main","project":"shop","environment":"development"}')
  const message =
    'There is no environment development in the project shop, or this credential does not reach it: it reaches production.'
  const hint = '-e production, or COFFER_ENVIRONMENT=production'
  const { checks } = await examine(shell)
  expect(checks.get('environment')).toMatchObject({ state: 'fail', message, try: hint })
  for (const args of [
    ['secrets', 'list'],
    ['run', '--', 'true'],
  ]) {
    expect((await shell.coffer(args)).err).toBe(`coffer: ${message}\ntry: ${hint}\n`)
  }
})

test('a pipeline is told to set variables', async () => {
  const missing = await openShell({ CI: 'true' }).coffer(['secrets', 'list'])
  expect(missing).toMatchObject({ code: 2, err: expect.stringContaining('try: set COFFER_') })
  expect(missing.err).not.toContain('coffer login')
})

test('fails with a .coffer.json that is not valid', async () => {
  const shell = openShell(running.env)
  writeFileSync(join(shell.cwd, '.coffer.json'), '{"projekt":"api"}')
  const { code, checks } = await examine(shell)
  expect(code).toBe(1)
  expect(checks.get('.coffer.json')?.message).toContain('projekt is not a known field')
})

test('repairs a login file that others can read, and warns of a damaged one', async () => {
  const shell = openShell(running.env)
  const path = writeLogins(shell, '{"byUrl":{}}', 0o644)
  const wide = await shell.coffer(['doctor'])
  expect(wide).toMatchObject({ code: 0, err: expect.stringContaining(`Other users could read ${path}`) })
  expect(wide.out).toContain(`${path}, readable by you alone`)
  writeLogins(shell, '{')
  const damaged = await examine(shell)
  expect(damaged.code).toBe(0)
  expect(damaged.checks.get('login file')).toMatchObject({ state: 'warn', try: 'coffer login' })
})

test('warns of a token that takes the place of the login, and of a folder without a project', async () => {
  const shell = openShell({ COFFER_URL: running.env.COFFER_URL, COFFER_TOKEN: running.token })
  const login = { email: 'owner@example.com', userId: 'u', store: 'file', session: 'canary' }
  writeLogins(shell, JSON.stringify({ byUrl: { [running.service.url]: login } }))
  const { code, checks } = await examine(shell)
  expect(code).toBe(0)
  expect(checks.get('credential')).toMatchObject({
    state: 'warn',
    message: 'COFFER_TOKEN is used instead of your login.',
  })
  expect(checks.get('project')).toMatchObject({ state: 'warn' })
})

const state = { needsSetup: false, version: '9.0.0' }

test('warns of a clock that differs and of another version', async () => {
  const { url } = await startScripted(
    (...asked) => json(200, state, { date: new Date(Date.now() - 600_000).toUTCString() })(...asked),
    json(401, { message: 'no' }),
  )
  const { checks } = await examine(openShell(running.env), { COFFER_URL: url })
  expect(checks.get('clock')).toMatchObject({ state: 'warn', message: 'This machine is 10 min ahead of the service.' })
  expect(checks.get('version')).toMatchObject({ state: 'warn', message: expect.stringContaining('service 9.0.0') })
})

test.each([
  ['hangs', () => undefined, 'no answer within 5 s'],
  ['sends garbage', json(200, 'x'), 'does not answer like a Coffer service (status 200)'],
  ['limits requests', json(429, { message: 'x' }), 'does not answer like a Coffer service (status 429)'],
] as const)('fails with a service that %s', async (_, respond, message) => {
  const { url } = await startScripted(respond)
  const { code, checks } = await examine(openShell(running.env), { COFFER_URL: url })
  expect(code).toBe(1)
  expect(checks.get('service')).toMatchObject({ state: 'fail', message: expect.stringContaining(message) })
  expect(checks.has('credential')).toBe(false)
})

test('fails with a certificate that this machine does not trust, and works once it does', async () => {
  const server = createServer({ key: testPrivateKey, cert: testCertificate }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(state))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = server.address()
  const shell = openShell({ COFFER_URL: `https://127.0.0.1:${typeof address === 'object' ? address?.port : 0}` })
  const refused = await examine(shell)
  expect(refused.checks.get('service')).toMatchObject({
    state: 'fail',
    message: expect.stringContaining('DEPTH_ZERO_SELF_SIGNED_CERT'),
    try: expect.stringContaining('NODE_EXTRA_CA_CERTS'),
  })
  const authority = join(shell.home, 'ca.pem')
  writeFileSync(authority, testCertificate)
  const trusted = await examine(shell, { NODE_EXTRA_CA_CERTS: authority })
  expect(trusted.checks.get('encryption')).toMatchObject({ state: 'ok', message: expect.stringContaining('TLS') })
})

test('works without a home', async () => {
  const { checks } = await examine(openShell(running.env), { HOME: '' })
  expect(checks.get('login file')).toMatchObject({ state: 'warn' })
})
