/** What happens to the file of SQLite and its disk. PostgreSQL keeps its own, and when it is full answers as one that is away. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { createDatabase, openService, registerOwner, type TestService } from '../../../test/harness.ts'
import { runProgram, until } from '../../../test/program.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { asker, furnish, harmless, path, promotion, reads, writes } from '../../../test/unrecorded.ts'

describe('on a full disk', () => {
  const run = promisify(execFile)
  let dataDir: string | undefined
  let service: TestService | undefined
  afterEach(async () => {
    await service?.stop()
    if (dataDir === undefined) return
    await run('umount', [dataDir])
    await rm(dataDir, { recursive: true, force: true })
  })

  test('no value leaves, what shows none goes on, and there is no need to start again once there is room', async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'coffer-full-'))
    await run('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=700', 'coffer-full', dataDir])
    service = await openService({ COFFER_DATA_DIR: dataDir }, dataDir)
    const { ask, expectAll, expectRefused, state, expectSoundTrail } = asker(await furnish(service))
    await expectAll(reads, 200)
    const before = await state()
    const ballast = join(dataDir, 'ballast')
    await writeFile(ballast, Buffer.alloc(8_000_000)).catch((error: unknown) =>
      expect(String(error)).toContain('ENOSPC'),
    )
    const isFull = async () => (await ask(['GET', `${path}/secret`])).status === 503 || undefined
    await until(isFull, 20_000, 'there is no room for an entry')
    await expectRefused([...reads, promotion, ...writes])
    await expectAll(harmless, 200)
    expect(await state()).toEqual(before)
    expect((await ask(['GET', '/readyz'])).status).toBe(503)
    expect((await ask(['GET', '/healthz'])).status).toBe(200)
    const told = (message: string) => service?.logs.filter((line) => line.includes(message)) ?? []
    expect(told('writes are refused')).toEqual([expect.stringContaining('ERR_SQLITE_ERROR 13')])

    await unlink(ballast)
    expect((await ask(['GET', '/readyz'])).status).toBe(200)
    expect(told('writes are accepted again')).toHaveLength(1)
    await expectAll(reads, 200)
    expect((await ask(promotion)).status).toBe(200)
    await expectSoundTrail()
  })
})

test('a start on what is not a database at all is refused in one sentence', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  await writeFile(join(folder, 'coffer.db'), 'this is no database, and long enough to be seen as none'.repeat(100))
  const { code, out, err } = await runProgram([], { COFFER_DATA_DIR: folder, COFFER_PORT: '0' })
  expect({ code, out }, err).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^Coffer cannot start\. [^\n]*\n$/)
  await rm(folder, { recursive: true })
})

test('a bit that has turned in the index of names gives nobody the value of another name', async () => {
  const database = await createDatabase()
  const service = await openService(database.settings, database.dataDir)
  const { session } = await registerOwner(service)
  const project = await createSecretProject(service, session)
  const names = Array.from({ length: 8 }, (_, index) => `NAME_${index}`)
  await project.set('development', Object.fromEntries(names.map((name) => [name, `value of ${name}`])))
  const { body } = await service.call<{ id: string }>('GET', project.root, { token: session })
  await service.stop()

  // An entry of the index is the project's id, the name and, in one byte, the number of its row; in the row itself text follows.
  const file = join(database.dataDir, 'coffer.db')
  const bytes = await readFile(file)
  const name = names[4] ?? ''
  const entry = `${body.id}${name}`
  const isRow = (at: number) => bytes.subarray(at + entry.length).toString('latin1', 0, 7) === 'runtime'
  let entryAt = bytes.indexOf(entry)
  while (isRow(entryAt)) entryAt = bytes.indexOf(entry, entryAt + 1)
  expect(entryAt).toBeGreaterThan(0)
  const rowNumberAt = entryAt + entry.length
  bytes.writeUInt8(bytes.readUInt8(rowNumberAt) ^ 1, rowNumberAt)
  await writeFile(file, bytes)

  const damaged = await openService(database.settings, database.dataDir)
  const path = `${project.root}/secret/${name}`
  expect((await damaged.call('GET', path, { token: session })).status).toBe(404)
  const write = { environmentId: 'development', value: 'new' }
  expect((await damaged.call('PUT', `${path}/value`, { token: session, body: write })).status).toBe(404)
  for (const other of names.filter((one) => one !== name)) {
    const answer = await damaged.call('GET', `${project.root}/secret/${other}`, { token: session })
    expect(answer.body).toMatchObject({ name: other, values: [{ value: `value of ${other}` }] })
  }
  await damaged.stop()
  expect((await runProgram(['doctor'], database.settings)).code).toBe(1)
  await database.drop()
})
