import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { createProject, createToken, password } from '../../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../../test/sdk-service.ts'

let coffer: SdkService
beforeAll(async () => {
  coffer = await startSdkService()
  await createProject(coffer.service, coffer.session, 'shop')
})
afterAll(() => coffer.stop())

const shellOf = (more: Record<string, string | undefined> = {}) =>
  openShell({ ...coffer.env, COFFER_TOKEN: coffer.session, ...more })
const token = /^cof_live_[A-Za-z0-9]{36}$/

test('creates a token for the environment of the folder, lists, rotates and revokes it', async () => {
  const shell = shellOf()
  const created = await shell.coffer(['token', 'create', 'build', '--raw'])
  expect(created).toMatchObject({ code: 0, out: expect.stringMatching(token) })
  expect(created.err).toContain('shown only now')
  const asToken = openShell({ ...coffer.env, COFFER_TOKEN: created.out })
  expect((await asToken.coffer(['secrets', 'list'])).code).toBe(0)
  expect((await asToken.coffer(['secrets', 'list', '-e', 'staging'])).code).toBe(5)
  expect((await asToken.coffer(['secrets', 'set', 'A=1'])).code).toBe(4)

  const listed = await shell.coffer(['token', 'list'])
  const row = listed.out
    .split('\n')
    .find((line) => line.includes('\tbuild\t'))
    ?.split('\t')
  expect(row).toEqual([
    expect.stringMatching(/^[0-9a-f-]{36}$/),
    'build',
    `${created.out.slice(0, 13)}…`,
    'read',
    'api/development',
    'active',
    expect.stringMatching(/^\d{4}-/),
    expect.stringMatching(/^\d{4}-|never/),
  ])
  expect(listed.out).not.toContain(created.out)

  const rotated = await shell.coffer(['token', 'rotate', 'build', '--raw'])
  expect(rotated.out).toMatch(token)
  expect(rotated.out).not.toBe(created.out)
  expect((await asToken.coffer(['secrets', 'list'])).code).toBe(3)

  expect(await shell.coffer(['token', 'revoke', 'build'])).toMatchObject({ code: 2, out: '' })
  const revoked = await shell.coffer(['token', 'revoke', 'build', '-y'])
  expect(revoked).toMatchObject({ code: 0, out: `${row?.[0]}\tbuild\trevoked\n` })
  const asRotated = openShell({ ...coffer.env, COFFER_TOKEN: rotated.out })
  expect((await asRotated.coffer(['secrets', 'list'])).code).toBe(3)
  expect((await shell.coffer(['token', 'list'])).out).not.toContain('\tbuild\t')
  expect((await shell.coffer(['token', 'list', '--all'])).out).toContain('\trevoked\t')
})

test('scopes are names; --json is the object of the API', async () => {
  const args = ['token', 'create', 'wide', '--json', '-q', '--permission=read-write', '--expires', 'never']
  const scopes = ['--scope', 'shop', '--scope', 'api/STAGING', '--scope', 'shop', '--ip', '203.0.113.0/24']
  const { code, out, err } = await shellOf().coffer([...args, ...scopes])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const issued = JSON.parse(out)
  expect(issued).toMatchObject({ permission: 'read-write', expiresAt: null, token: expect.stringMatching(token) })
  expect(issued.scope).toEqual({
    all: false,
    teams: [],
    projects: [expect.any(String)],
    environments: [expect.any(String)],
  })
  const listed = JSON.parse((await shellOf().coffer(['token', 'list', '--json'])).out)
  expect(listed.find((one: { name: string }) => one.name === 'wide').allowedIps).toEqual(['203.0.113.0/24'])
  const { out: table } = await shellOf().coffer(['token', 'list'])
  expect(table).toContain('\tshop, api/staging\t')
})

test.each([
  [['create'], 2, 'An argument is missing.'],
  [['create', 'x', '--scope', 'nowhere'], 5, 'There is no project nowhere that you may see.\ntry: one of: api, shop'],
  [
    ['create', 'x', '--scope', 'shop/nowhere'],
    5,
    'There is no environment shop/nowhere that you may see.\ntry: one of: development, staging, production',
  ],
  [['create', 'x', '--scope', 'team:nobody'], 5, 'There is no team nobody that you may see.'],
  [['create', 'x', '--scope', 'a/b/c'], 2, '--scope must be all, PROJECT, PROJECT/ENVIRONMENT or team:NAME.'],
  [['create', 'x', '--scope', 'all', '--scope', 'shop'], 2, '--scope all stands alone.'],
  [['create', 'x', '--permission', 'admin'], 2, '--permission must be one of: read, read-write.'],
  [['create', 'x', '--raw', '--json'], 2, 'Give --raw or --json.'],
  [['create', 'x', '--ip', '999.1.1.1'], 1, ''],
  [['rotate', 'nobody'], 5, 'There is no active token nobody.\ntry: coffer token list'],
  [['rotate', 'twin'], 2, 'Several tokens are called twin: name one by its id.'],
  [['rotate', 'twin', '--grace', '2d'], 2, '--grace is between 0s and 24h.'],
  [['revoke', 'nobody', '-y'], 5, 'There is no active token nobody.'],
])('token %j ends with %i', async (args, code, message) => {
  if (args[1] === 'twin') {
    await createToken(coffer.service, coffer.session, { name: 'twin' })
    await createToken(coffer.service, coffer.session, { name: 'twin' })
  }
  const outcome = await shellOf().coffer(['token', ...args])
  expect(outcome).toMatchObject({ code, out: '' })
  expect(outcome.err).toContain(message)
})

test('without a scope, a folder without an environment is refused', async () => {
  const { code, err } = await shellOf({ COFFER_ENVIRONMENT: undefined }).coffer(['token', 'create', 'x'])
  expect(code).toBe(2)
  expect(err).toContain('--scope is missing')
})

test('a token cannot make tokens', async () => {
  expect((await shellOf({ COFFER_TOKEN: coffer.token }).coffer(['token', 'create', 'x'])).code).toBe(4)
})

test('asks before it revokes', async () => {
  const { id } = await createToken(coffer.service, coffer.session, { name: 'asked' })
  const session = shellOf().terminal(['token', 'revoke', id])
  await session.see('Revoke the token asked')
  session.type('n')
  expect(await session.ended).toMatchObject({ code: 130 })
  expect((await shellOf().coffer(['token', 'list'])).out).toContain('\tasked\t')
})

test('--may-administer asks for the password on a terminal, and the list marks the token', async () => {
  const shell = shellOf()
  const args = ['token', 'create', 'ops', '--may-administer', '--permission', 'read-write', '--scope', 'all']
  const session = shell.terminal([...args, '--expires', '24h'])
  await session.see('Your password, or a code')
  session.type(`${password}\r`)
  const { code } = await session.ended
  const out = session.screen()
  expect(code, out).toBe(0)
  expect(out).not.toContain(password)
  const listed = await shell.coffer(['token', 'list'])
  expect(listed.out).toContain('\tread-write, administers\t')
})

test('--may-administer without a terminal, or with a wrong password, creates nothing', async () => {
  const shell = shellOf()
  const args = ['token', 'create', 'none', '--may-administer', '--permission', 'read-write', '--scope', 'all']
  expect(await shell.coffer([...args, '--expires', '24h'])).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('There is nobody to ask here'),
  })
  const session = shell.terminal([...args, '--expires', '24h'])
  await session.see('Your password, or a code')
  session.type('not the password\r')
  expect((await session.ended).code).not.toBe(0)
  expect(session.screen()).toContain('password: is wrong.')
  expect((await shell.coffer(['token', 'list'])).out).not.toContain('\tnone\t')
})
