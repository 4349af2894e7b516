/** The setup code for the first account. The link of the startup log is tested in operator/first-account.test.ts. */
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  createDatabase,
  type Database,
  openService,
  password,
  registerOwner,
  startService,
} from '../../../../../test/harness.ts'
import { until } from '../../../../../test/wait.ts'

const refusal =
  'setupCode: the first account needs the code in COFFER_SETUP_CODE or, if that is not set, in the link printed at the start and in the file setup-code of the data folder.'
const body = { email: 'owner@example.com', name: 'Owner', password }
/** Without a code that the operator chose. */
const derived = { COFFER_SETUP_CODE: '' }

async function makeDatabase(): Promise<Database> {
  const database = await createDatabase({ hasSchema: true })
  onTestFinished(() => database.drop())
  return database
}

async function openDerived({ settings, dataDir }: Database, more: Record<string, string> = {}) {
  const service = await openService({ ...settings, ...derived, ...more }, dataDir)
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= service.stop()
    return stopped
  }
  onTestFinished(stop)
  const register = (setupCode?: string, headers: Record<string, string> = {}) =>
    service.call('POST', '/v1/auth/register', {
      headers,
      body: setupCode === undefined ? body : { ...body, setupCode },
    })
  return { ...service, stop, register, file: join(dataDir, 'setup-code') }
}

const codeIn = (file: string) => readFileSync(file, 'utf8').trim()

test('no address and no header stands in for the code: a proxy on this machine looks like a local client', async () => {
  const service = await openDerived(await makeDatabase())
  const { port } = new URL(service.url)
  // nginx with nothing but proxy_pass sends the first; the others come from no proxy, or from one that says so.
  for (const headers of [
    { host: `127.0.0.1:${port}`, connection: 'close' },
    { host: `localhost:${port}` },
    { host: '[::1]' },
    { host: 'coffer.example.com', 'x-forwarded-for': '192.0.2.1' },
  ]) {
    const refused = await service.register(undefined, headers)
    expect(refused, JSON.stringify(headers)).toMatchObject({ status: 403, body: { message: refusal } })
  }
  const code = codeIn(service.file)
  for (const wrong of ['wrong', `${code}x`, code.slice(1)]) {
    expect((await service.register(wrong)).status).toBe(403)
  }
  expect((await service.register(code, { host: 'coffer.example.com', 'x-forwarded-for': '192.0.2.1' })).status).toBe(
    201,
  )
})

test('the code is the same on all nodes and after a restart, and another store has another one', async () => {
  const database = await makeDatabase()
  const first = await openDerived(database)
  const code = codeIn(first.file)
  expect(code).toMatch(/^[\w-]{20}$/)
  await first.stop()
  const nodes = [await openDerived(database), await openDerived(database)]
  expect(nodes.map(({ app }) => app.services.setupCode.value)).toEqual([code, code])
  const stranger = await openDerived(await makeDatabase())
  expect(codeIn(stranger.file)).not.toBe(code)
  expect((await nodes[1]?.register(code))?.status).toBe(201)
})

test('the file holds the code for its owner alone until the first account is made, on every node', async () => {
  const database = await makeDatabase()
  const target = join(database.dataDir, 'target')
  writeFileSync(target, 'of somebody')
  symlinkSync(target, join(database.dataDir, 'setup-code'))
  const service = await openDerived(database)
  expect(readFileSync(target, 'utf8')).toBe('of somebody')
  expect(statSync(service.file).mode & 0o777).toBe(0o600)
  expect((await service.register('wrong')).status).toBe(403)
  expect(existsSync(service.file)).toBe(true)
  // The other node has a data folder of its own.
  const elsewhere = await makeDatabase()
  const { settings } = database
  const url = settings.COFFER_DATABASE_URL
  const other =
    url === undefined
      ? undefined
      : await openDerived(
          { ...elsewhere, settings: { COFFER_DATABASE_URL: url, COFFER_DATA_DIR: elsewhere.dataDir } },
          {
            COFFER_MASTER_KEY_FILE: join(database.dataDir, 'master.key'),
          },
        )
  if (other) expect(codeIn(other.file)).toBe(codeIn(service.file))
  expect((await service.register(codeIn(service.file))).status).toBe(201)
  expect(existsSync(service.file)).toBe(false)
  if (other) await until(() => !existsSync(other.file) || undefined, 120_000, 'the other node has removed its file')
})

test('a file that a killed service left behind goes with the next start', async () => {
  const database = await makeDatabase()
  const service = await openDerived(database)
  expect((await service.register(codeIn(service.file))).status).toBe(201)
  await service.stop()
  writeFileSync(service.file, 'left behind')
  await openDerived(database)
  expect(existsSync(service.file)).toBe(false)
})

test('a code that the operator chose is required as well, and kept nowhere', async () => {
  const database = await makeDatabase()
  writeFileSync(join(database.dataDir, 'setup-code'), 'of an earlier start')
  const service = await openDerived(database, { COFFER_SETUP_CODE: 'chosen-by-hand' })
  expect(existsSync(service.file)).toBe(false)
  expect((await service.register()).status).toBe(403)
  expect((await service.register('chosen-by-hand')).status).toBe(201)
  expect(service.logs.join('\n')).not.toContain('chosen-by-hand')
})

test('a data folder that cannot be written does not stop a service whose store is elsewhere', async () => {
  const database = await makeDatabase()
  const blocked = join(database.dataDir, 'a-file')
  writeFileSync(blocked, '')
  if (database.settings.COFFER_DATABASE_URL === undefined) return
  const key = join(database.dataDir, 'master.key')
  const more = { COFFER_DATA_DIR: blocked, COFFER_MASTER_KEY_FILE: key }
  const service = await openDerived(database, more)
  expect(service.logs.join('\n')).toContain('cannot be written')
  expect((await service.register(service.app.services.setupCode.value)).status).toBe(201)
})

test('after the first account the code opens nothing', async () => {
  const service = await startService()
  await registerOwner(service)
  const more = { ...body, email: 'second@example.com', setupCode: service.app.services.setupCode.value }
  expect(await service.call('POST', '/v1/auth/register', { body: more })).toMatchObject({
    status: 403,
    body: { message: 'Registration is closed: ask an admin of your workspace for an invite.' },
  })
  await service.stop()
})
