/** What happens to the file of SQLite and its disk. PostgreSQL keeps its own, and when it is full answers as one that is away. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { openService, type TestService } from '../../../test/harness.ts'
import { runProgram, until } from '../../../test/program.ts'
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

    await unlink(ballast)
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
