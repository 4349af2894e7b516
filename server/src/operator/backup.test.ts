/** Backups that prove themselves: what is in them, what verifies, and what is refused. */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createToken, registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { flushUsage } from '../jobs/usage.ts'

let service: TestService
let made = 0

beforeAll(async () => {
  service = await startService()
  const owner = await registerOwner(service)
  await createToken(service, owner.session)
  const project = await createSecretProject(service, owner.session)
  for (const environment of ['development', 'staging']) {
    await project.set(
      environment,
      Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`KEY_${at}`, `value ${at}`])),
    )
  }
  // A later flush would change the rows between two backups.
  await flushUsage(service.app.services)
})
afterAll(() => service.stop())

const newFile = () => join(service.dataDir, `${++made}.backup`)
const run = (...args: string[]) => runHere(args, service.settings)

async function backUp(): Promise<string> {
  const file = newFile()
  const { code, out, err } = await run('backup', file)
  expect(code, out + err).toBe(0)
  expect(out).toContain(`Wrote and verified ${file}`)
  return file
}

test('a backup is written while the service runs, verified, and leaves nothing else behind', async () => {
  const before = await readdir(service.dataDir)
  const file = await backUp()
  const after = await readdir(service.dataDir)
  expect(after.filter((name) => !before.includes(name))).toEqual([file.split('/').at(-1)])
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const verified = await run('backup', 'verify', file)
  expect(verified.out).toMatch(/^ {2}ok {5}.*: \d+ rows, \d+ bytes, of .*, by Coffer .*, digest [0-9a-f]{64}\n$/)
  expect(verified.code).toBe(0)
})

test('equal contents have equal digests, and a change gives another', async () => {
  const digestOf = async () => /digest ([0-9a-f]{64})/.exec((await run('backup', newFile())).out)?.[1]
  const first = await digestOf()
  expect(first).toBeDefined()
  expect(await digestOf()).toBe(first)
  await registerSomething()
  expect(await digestOf()).not.toBe(first)
})

async function registerSomething(): Promise<void> {
  const { status } = await service.call('POST', '/v1/auth/login', {
    body: { email: 'owner@example.com', password: 'a wrong password' },
  })
  expect(status).toBe(401)
}

test('an existing file is not overwritten', async () => {
  const file = newFile()
  await writeFile(file, 'mine')
  const refused = await run('backup', file)
  expect(refused.code).toBe(1)
  expect(refused.err).toBe(`${file} exists already: choose another name, or move it away.\n`)
  expect(await readFile(file, 'utf8')).toBe('mine')
})

test('a backup that was not verified is not called one', async () => {
  const file = newFile()
  const { code, out } = await run('backup', '--no-verify', file)
  expect(code).toBe(0)
  expect(out).toContain('It is not verified, so do not rely on it')
  expect((await run('backup', 'verify', file)).code).toBe(0)
})
