/** A token alone leads every command to its place, and a wrong workspace is named as what is wrong. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { createProject, createToken } from '../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
let token: string
let projectToken: string
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ HOST: 'db.example.com' })
  const { service, session, environmentId } = running
  const permission = 'read-write'
  token = (await createToken(service, session, { permission, scope: { environments: [environmentId] } })).token
  const project = await createProject(service, session, 'shared')
  projectToken = (await createToken(service, session, { permission, scope: { projects: [project.id] } })).token
})
afterAll(() => running.stop())

const shellOf = (credential: string, env: Record<string, string> = {}) =>
  openShell({ COFFER_URL: running.service.url, COFFER_TOKEN: credential, ...env })

test.each([
  { args: ['export'], out: 'HOST=db.example.com\n' },
  { args: ['secrets', 'get', 'HOST'], out: 'db.example.com\n' },
  { args: ['secrets', 'list'], out: expect.stringMatching(/^HOST\t/) },
  { args: ['secrets', 'set', 'NEW=1'], out: expect.stringContaining('NEW') },
  { args: ['secrets', 'delete', 'NEW', '-y'], out: expect.stringContaining('NEW') },
  { args: ['history'], out: expect.any(String) },
  { args: ['import', '-', '--mode', 'upsert', '-q'], input: 'READ=1\n', out: expect.stringContaining('READ') },
  { args: ['secrets', 'delete', 'READ', '-y'], out: expect.stringContaining('READ') },
  { args: ['open', '--print'], out: expect.stringMatching(/\/main\/api\n$/) },
  { args: ['run', '--', 'printenv', 'HOST'], out: 'db.example.com\n' },
])('$args works with the token of one environment and nothing else', async ({ args, input, out }) => {
  const { err, ...ended } = await shellOf(token).coffer(args, input === undefined ? {} : { input })
  expect(ended, err).toMatchObject({ code: 0, out })
})

test.each([
  ['token', 'list'],
  ['token', 'create', 'made', '--scope', 'all', '-q'],
  ['members', 'list'],
  ['service-account', 'list'],
  ['explain', 'owner@example.com', 'read', '--anywhere'],
])('%s %s finds the workspace of a credential that is in one alone', async (...args) => {
  const { code, err } = await shellOf(running.session).coffer(args)
  expect({ code, err }).toEqual({ code: 0, err: '' })
})

// On a busy machine the service may miss the limit of 300 ms.
test.each([
  { words: ['secrets', 'get', 'HO'], found: 'HOST\t\n' },
  { words: ['export', '-e', ''], found: 'development\t\n' },
  { words: ['export', '-p', ''], found: 'api\t\n' },
])('$words is completed in the place of the token', { retry: 5 }, async ({ words, found }) => {
  expect(await shellOf(token).coffer(['__complete', '--', ...words])).toMatchObject({ code: 0, out: found, err: '' })
})

test('share makes, lists and revokes in the place of the token; --open asks nobody about it', async () => {
  const shell = shellOf(token)
  const { code, out, err } = await shell.coffer(['share', 'HOST'])
  expect(code, err).toBe(0)
  const id = /--revoke (\S+)/.exec(err)?.[1] ?? ''
  expect(await shell.coffer(['share', '--list'])).toMatchObject({ code: 0, out: expect.stringContaining(id) })
  const link = out.trim().replace('http://localhost:8080', running.service.url)
  const elsewhere = openShell({ COFFER_URL: 'http://127.0.0.1:1', COFFER_TOKEN: token })
  expect(await elsewhere.coffer(['share', '--open', '-', '-y'], { input: link })).toMatchObject({
    code: 0,
    out: 'HOST\tdb.example.com\n',
  })
  expect(await shell.coffer(['share', '--revoke', id])).toMatchObject({ code: 0 })
})

test('open --print names the service alone while the service is away', async () => {
  const away = openShell({ COFFER_URL: 'http://127.0.0.1:1', COFFER_TOKEN: token })
  expect(await away.coffer(['open', '--print'])).toMatchObject({ code: 0, out: 'http://127.0.0.1:1\n' })
})

test('status says that the place is that of the token', async () => {
  const { out } = await shellOf(token).coffer(['status'])
  for (const [name, value] of Object.entries({ workspace: 'main', project: 'api', environment: 'development' })) {
    expect(out).toContain(`${name}\t${value}\tthe token\n`)
  }
  const away = await openShell({ COFFER_URL: 'http://127.0.0.1:1', COFFER_TOKEN: token }).coffer(['status'])
  expect(away).toMatchObject({ code: 0, out: expect.stringContaining('project\tnot set') })
})

test('status and doctor name what coffer run leaves out in the place of the token', async () => {
  await running.write({ JAVA_OPTS: '-Xmx1g' })
  const shell = shellOf(token)
  const status = await shell.coffer(['status'])
  expect(status.out).toContain('left out by run\tJAVA_OPTS (Java obeys it)\t\n')
  const { code, out } = await shell.coffer(['doctor'])
  expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('ok\tproject\tmain/api exists\t\n') })
  expect(out).toContain('ok\tenvironment\tdevelopment exists\t\n')
  expect(out).toContain('warn\tnames\tcoffer run leaves out: JAVA_OPTS (Java obeys it)')
  await running.remove('JAVA_OPTS')
})

test('a token of one project leads to it, and one of everything to its workspace alone', async () => {
  const ofProject = await shellOf(projectToken).coffer(['status'])
  expect(ofProject.out).toContain('project\tshared\tthe token\n')
  expect(ofProject.out).toContain('environment\tnot set\t\n')
  const everything = shellOf(running.token)
  expect((await everything.coffer(['status'])).out).toContain('project\tnot set\t\n')
  expect(await everything.coffer(['export'])).toMatchObject({ code: 2, err: expect.stringContaining('is not known') })
  expect(await shellOf('coffer_live_wrong').coffer(['export'])).toMatchObject({ code: 3 })
})

test('the token decides nothing where somebody names a place', async () => {
  const shell = shellOf(token, { COFFER_WORKSPACE: 'main', COFFER_PROJECT: 'shared', COFFER_ENVIRONMENT: 'staging' })
  expect((await shell.coffer(['status'])).out).toContain('project\tshared\tCOFFER_PROJECT\n')
  expect(await shell.coffer(['export'])).toMatchObject({ code: 5 })
})

test.each([
  ['run', '--', 'true'],
  ['export'],
  ['secrets', 'list'],
  ['secrets', 'get', 'HOST'],
  ['token', 'list'],
  ['members', 'list'],
  ['sync', 'status'],
])('a wrong workspace is what %j complains about', async (...args) => {
  const shell = openShell({ ...running.env, COFFER_WORKSPACE: undefined, COFFER_TOKEN: running.session })
  const [first = '', ...rest] = args
  const { code, err } = await shell.coffer([first, '-w', 'nope', ...rest])
  expect({ code, err }).toEqual({
    code: first === 'run' ? 125 : 5,
    err: 'coffer: There is no workspace nope, or you are not in it.\ntry: one of: main\n',
  })
})

test('status names the sources of .coffer.json in their order', async () => {
  const shell = openShell({ ...running.env, COFFER_PROJECT: undefined, COFFER_ENVIRONMENT: undefined })
  const file = join(shell.cwd, '.coffer.json')
  const sources = [{ project: 'shared' }, { project: 'api', environment: 'staging', prefix: 'API_' }]
  writeFileSync(file, JSON.stringify({ environment: 'development', sources }))
  const { out } = await shell.coffer(['status'])
  expect(out).toContain(`source\tmain/shared/development\t${file}\nsource\tmain/api/staging as API_…\t${file}\n`)
  const { out: json } = await shell.coffer(['status', '--json'])
  expect(JSON.parse(json).sources).toEqual(['main/shared/development', 'main/api/staging as API_…'])
  // Each of them is looked for.
  const checked = await shell.coffer(['doctor'])
  expect(checked).toMatchObject({ code: 0, out: expect.stringMatching(/main\/shared exists[\s\S]*main\/api exists/) })
  const absent = await shell.coffer(['doctor', '-e', 'nope'])
  expect(absent).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^fail\tenvironment\t[\s\S]*^fail\tenvironment\t/m),
  })
  // A project on the command line replaces them.
  expect((await shell.coffer(['status', '-p', 'api'])).out).not.toContain('source\t')
})
