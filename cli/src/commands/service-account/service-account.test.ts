/** `coffer service-account` and `coffer token transfer` against a real service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { createProject, createToken } from '../../../../test/harness.ts'
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

test('creates an account and its tokens, lists and deletes it', async () => {
  const shell = shellOf()
  const grants = ['--grant', 'developer:shop/staging', '--grant', 'member:shop/production']
  const created = await shell.coffer(['service-account', 'create', 'deploy', ...grants])
  expect(created).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^[0-9a-f-]{36}\tdeploy\tdeveloper:shop\/staging member:shop\/production\n$/),
  })

  const make = ['service-account', 'token', 'deploy', 'server', '--permission', 'read-write', '--raw']
  const issued = await shell.coffer(make)
  expect(issued).toMatchObject({ code: 0, out: expect.stringMatching(token) })
  const machine = openShell({ ...coffer.env, COFFER_TOKEN: issued.out, COFFER_PROJECT: 'shop' })
  expect((await machine.coffer(['secrets', 'set', 'A=1', '-e', 'staging'])).code).toBe(0)
  expect((await machine.coffer(['secrets', 'set', 'A=1', '-e', 'production'])).code).toBe(4)
  expect((await machine.coffer(['secrets', 'list', '-e', 'production'])).code).toBe(0)
  expect((await machine.coffer(['secrets', 'list', '-p', 'api', '-e', 'staging'])).code).toBe(5)

  const listed = await shell.coffer(['service-account', 'list'])
  expect(listed.out).toMatch(/\tdeploy\tdeveloper:shop\/staging member:shop\/production\t1\t\d{4}-\S+\t/)
  expect(listed.out + listed.err).not.toContain(issued.out)
  expect(JSON.parse((await shell.coffer(['service-account', 'list', '--json'])).out)).toMatchObject([
    { name: 'deploy', tokens: 1 },
  ])
  const explained = await shell.coffer(['explain', 'deploy', 'write', '-p', 'shop', '-e', 'staging'])
  expect(explained.out).toMatch(/^yes\tThe service account deploy may write secrets in staging of shop: the grant /)

  const refused = await shell.coffer(['service-account', 'delete', 'deploy'])
  expect(refused).toMatchObject({ code: 2, out: '' })
  expect(refused.err).toContain('These tokens end: server')
  expect((await machine.coffer(['secrets', 'list', '-e', 'production'])).code).toBe(0)
  const deleted = await shell.coffer(['service-account', 'delete', 'deploy', '-y'])
  expect(deleted).toMatchObject({ code: 0, out: expect.stringMatching(/\tdeploy\tdeleted\n$/) })
  expect((await machine.coffer(['secrets', 'list', '-e', 'production'])).code).toBe(3)
})

test('a token of a person goes to an account, and keeps its value', async () => {
  const shell = shellOf()
  await shell.coffer(['service-account', 'create', 'nightly', '--grant', 'member:all'])
  const { token: value } = await createToken(coffer.service, coffer.session, { name: 'job', permission: 'read' })
  const moved = await shell.coffer(['token', 'transfer', 'job', 'nightly'])
  expect(moved).toMatchObject({ code: 0, out: expect.stringMatching(/\tjob\tnightly\n$/) })
  expect(moved.out + moved.err).not.toContain(value)
  expect((await openShell({ ...coffer.env, COFFER_TOKEN: value }).coffer(['secrets', 'list'])).code).toBe(0)
  const wide = await createToken(coffer.service, coffer.session, { name: 'wide' })
  const refused = await shell.coffer(['token', 'transfer', wide.id, 'nightly'])
  expect(refused).toMatchObject({ code: 6, out: '' })
})

test.each([
  [['service-account', 'create', 'x'], 2, '--grant is missing.'],
  [['service-account', 'create', 'x', '--grant', 'boss:all'], 2, '--grant must be ROLE:PLACE.'],
  [['service-account', 'create', 'x', '--grant', 'member:absent'], 5, 'There is no project absent'],
  [['service-account', 'token', 'absent', 'x'], 5, 'There is no service account absent.'],
  [['service-account', 'delete', 'absent', '-y'], 5, 'There is no service account absent.'],
  [['token', 'transfer', 'absent', 'deploy'], 5, 'There is no active token absent.'],
])('%j ends with %i', async (args, code, message) => {
  const outcome = await shellOf().coffer(args)
  expect(outcome).toMatchObject({ code, out: '' })
  expect(outcome.err).toContain(message)
})

test('asks before it deletes', async () => {
  const shell = shellOf()
  await shell.coffer(['service-account', 'create', 'asked', '--grant', 'member:all'])
  const session = shell.terminal(['service-account', 'delete', 'asked'])
  await session.see('Delete the service account asked?')
  session.type('n')
  expect(await session.ended).toMatchObject({ code: 130 })
  expect((await shell.coffer(['service-account', 'list'])).out).toContain('\tasked\t')
})
