/** `coffer login` in a pseudo-terminal, against the real service. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Session } from '@coffer/sdk'
import { expect, onTestFinished, test } from 'vitest'
import { setUpTotp } from '../../../test/authenticator.ts'
import { openShell, type Shell } from '../../../test/cli.ts'
import { createDatabase, openService, password, registerOwner, type TestService } from '../../../test/harness.ts'
import { setupCode } from '../../../test/setup-code.ts'

async function openEmptyService(settings: Record<string, string> = {}): Promise<TestService> {
  const database = await createDatabase()
  const service = await openService({ ...database.settings, ...settings }, database.dataDir)
  onTestFinished(async () => {
    await service.stop()
    await database.drop()
  })
  return service
}

const loginFile = (shell: Shell) => join(shell.home, '.config/coffer/logins.json')
const readLogin = (shell: Shell, url: string) => JSON.parse(readFileSync(loginFile(shell), 'utf8')).byUrl[url]

/** Everything that the shell has written to its disk. */
function writtenBy(shell: Shell): string {
  return [shell.home, shell.cwd]
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

async function answerFirstQuestions(session: ReturnType<Shell['terminal']>): Promise<void> {
  await session.see('Your name')
  session.type('Ada\r')
  await session.see('Password, at least 12')
  session.type(`${password}\r`)
  await session.see('same password again')
  session.type(`${password}\r`)
}

const sessionsOf = async (service: TestService, token: string) =>
  (await service.call<Session[]>('GET', '/v1/me/session', { token })).body

test('creates the first account and the first project, and keeps a session of the command line only', async () => {
  const service = await openEmptyService({ COFFER_SETUP_CODE: '' })
  const shell = openShell()
  // The command is started where the service was, and works in the folder of an application.
  symlinkSync(service.dataDir, join(shell.cwd, 'data'))
  const application = mkdtempSync(join(shell.home, 'coffer-app-'))
  const setupCode = readFileSync(join(service.dataDir, 'setup-code'), 'utf8').trim()
  const session = shell.terminal(['-C', application, 'login', service.url])
  await session.see('no account yet')
  await session.see('Email address')
  session.type('ada@example.com\r')
  await session.see('Your name')
  session.type('\r')
  await session.see('Password, at least 12')
  session.type('short\r')
  await session.see('12 to 256 characters')
  session.type(`\u0015${password}\r`)
  await session.see('same password again')
  session.type('something else\r')
  await session.see('The two passwords differ')
  await session.see('Password, at least 12')
  session.type(`${password}\r`)
  await session.see('same password again')
  session.type(`${password}\r`)
  await session.see(`Signed in to ${service.url} as ada@example.com.`)
  await session.see('Create the project coffer-app')
  session.type('\r')
  await session.see('next: coffer -C')
  await session.see('import .env')
  expect(await session.ended).toMatchObject({ code: 0 })

  const { session: token, ...login } = readLogin(shell, service.url)
  expect(login).toEqual({
    email: 'ada@example.com',
    userId: expect.any(String),
    workspace: 'main',
    store: 'file',
  })
  expect(statSync(loginFile(shell)).mode & 0o777).toBe(0o600)
  expect((await sessionsOf(service, token)).map(({ type }) => type)).toEqual(['cli'])
  const file = JSON.parse(readFileSync(join(application, '.coffer.json'), 'utf8'))
  expect(file).toEqual({ url: service.url, workspace: 'main', project: expect.any(String), environment: 'development' })
  expect(writtenBy(shell) + session.screen()).not.toContain(password)
  expect(writtenBy(shell) + session.screen()).not.toContain(setupCode)

  const asked = await shell.coffer(['whoami', '--json'])
  expect(JSON.parse(asked.out)).toMatchObject({ email: 'ada@example.com', credential: { type: 'cli' } })
})

test.each<[string, (file: string) => void, Record<string, string>]>([
  ['a file that others can read', (file) => chmodSync(file, 0o644), {}],
  ['a file behind a link', (file) => [renameSync(file, `${file}-2`), symlinkSync(`${file}-2`, file)], {}],
  ['a folder that COFFER_DATA_DIR does not name', () => undefined, { COFFER_DATA_DIR: 'elsewhere' }],
])('asks for the setup code instead of reading %s', async (_what, prepare, env) => {
  const service = await openEmptyService({ COFFER_SETUP_CODE: '' })
  const shell = openShell()
  symlinkSync(service.dataDir, join(shell.cwd, 'data'))
  prepare(join(service.dataDir, 'setup-code'))
  const session = shell.terminal(['login', service.url, '--email', 'ada@example.com'], { env })
  await answerFirstQuestions(session)
  await session.see('Setup code')
  session.type('\u0003')
  await session.ended
})

test('asks for the setup code if the file belongs to another service', async () => {
  const service = await openEmptyService()
  const shell = openShell()
  mkdirSync(join(shell.cwd, 'data'))
  writeFileSync(join(shell.cwd, 'data', 'setup-code'), 'of-another-service\n', { mode: 0o600 })
  const session = shell.terminal(['login', service.url, '--email', 'ada@example.com'])
  await answerFirstQuestions(session)
  await session.see('of another service')
  await session.see('Setup code')
  session.type(`${setupCode}\r`)
  await session.see('Create the project')
  session.type('n')
  expect(await session.ended).toMatchObject({ code: 0 })
})

test('asks for the setup code again after a wrong one', async () => {
  const service = await openEmptyService()
  const shell = openShell()
  const session = shell.terminal(['login', service.url, '--email', 'ada@example.com'])
  await answerFirstQuestions(session)
  await session.see('Setup code')
  session.type('wrong\r')
  await session.see('not the setup code')
  await session.see('Setup code')
  session.type(`${setupCode}\r`)
  await session.see('Create the project')
  session.type('n')
  await session.see('next: coffer init')
  expect(await session.ended).toMatchObject({ code: 0 })
  expect(existsSync(join(shell.cwd, '.coffer.json'))).toBe(false)
  expect(writtenBy(shell) + session.screen()).not.toContain(setupCode)
})

test('asks for password and second factor, again after a wrong one, and replaces the earlier session', async () => {
  const service = await openEmptyService()
  const owner = await registerOwner(service)
  const authenticator = await setUpTotp(service, owner.session)
  const shell = openShell()
  const signIn = async () => {
    const session = shell.terminal(['login', service.url])
    await session.see('Email address')
    session.type(`${owner.email}\r`)
    await session.see('Password of')
    session.type('a wrong password\r')
    await session.see('is wrong')
    await session.see('Password of')
    session.type(`${password}\r`)
    await session.see('authenticator app')
    session.type('000000\r')
    await session.see('The code is wrong')
    await session.see('authenticator app')
    const code = authenticator.freshCode()
    session.type(`${code}\r`)
    await session.see('Create the project')
    session.type('n')
    expect(await session.ended).toMatchObject({ code: 0 })
    expect(writtenBy(shell) + session.screen()).not.toContain(password)
    return readLogin(shell, service.url).session as string
  }
  const first = await signIn()
  const second = await signIn()
  expect((await service.call('GET', '/v1/me', { token: first })).status).toBe(401)
  const sessions = await sessionsOf(service, second)
  expect(sessions.map(({ type }) => type).toSorted()).toEqual(['browser', 'cli'])
})
