/** Environments may be called like a property that every object has. */
import { coffer } from '@coffer/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
const project = '/v1/workspace/main/project/api'
const names = ['constructor', 'toString']

beforeAll(async () => {
  running = await startSdkService()
  const post = async (path: string, body: unknown) => {
    const { status, text } = await running.service.call('POST', project + path, { token: running.session, body })
    expect(status, text).toBe(201)
  }
  for (const name of names) {
    await post('/environment', { name })
    await post('/secret', { environments: [name], secrets: [{ key: 'WHERE', value: name }], mode: 'upsert' })
  }
})
afterAll(() => running.stop())

test.each(names)('the command line reads, writes, compares and runs in %s', async (name) => {
  const shell = openShell({ ...running.env, COFFER_TOKEN: running.session, COFFER_ENVIRONMENT: name })
  const print = "process.stdout.write(process.env.WHERE + ' ' + (process.env.NEW ?? ''))"
  const run = () => shell.coffer(['run', '--', process.execPath, '-e', print])
  expect(await run()).toMatchObject({ code: 0, out: `${name} ` })
  expect(await shell.coffer(['secrets', 'set', 'NEW', '--stdin'], { input: `new in ${name}` })).toMatchObject({
    code: 0,
  })
  expect(await run()).toMatchObject({ code: 0, out: `${name} new in ${name}` })
  expect(await shell.coffer(['secrets', 'get', 'WHERE'])).toMatchObject({ code: 0, out: `${name}\n` })
  expect((await shell.coffer(['export', '-f', 'json'])).out).toContain(`"WHERE": "${name}"`)
  expect((await shell.coffer(['status', '--json'])).out).toContain(`"${name}"`)
  const compared = await shell.coffer(['diff', 'development', name])
  expect(compared).toMatchObject({ code: 0, out: 'added\tNEW\nadded\tWHERE\n' })
  expect((await shell.coffer(['promote', name, 'staging', '--dry-run'])).code).toBe(0)
  expect((await shell.coffer(['secrets', 'list', '-e', name])).out).toContain('WHERE')
})

test.each(names)('the client library reads %s', async (environment) => {
  const secrets = await coffer({
    url: running.service.url,
    credential: running.token,
    workspace: 'main',
    project: 'api',
    environment,
  })
  expect(secrets.get('WHERE')).toBe(environment)
})
