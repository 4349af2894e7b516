/** A full disk is called a full disk: in the log, in readiness and by `doctor`. The disk of PostgreSQL is that of another program. */
import { execFile } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { tempFolder } from '../../../../test/backup-target.ts'
import { runHere } from '../../../../test/command.ts'
import { openService, registerOwner } from '../../../../test/harness.ts'

const run = promisify(execFile)

test('a full disk of the store is called that, and is over when there is room', async ({ onTestFinished }) => {
  const dataDir = join(await tempFolder(), 'disk')
  await mkdir(dataDir)
  await run('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=700', 'coffer-full', dataDir])
  onTestFinished(async () => void (await run('umount', [dataDir])))
  const service = await openService({ COFFER_DATA_DIR: dataDir }, dataDir)
  onTestFinished(() => service.stop())
  const { session } = await registerOwner(service)
  const ballast = join(dataDir, 'ballast')
  await writeFile(ballast, Buffer.alloc(64 * 1024 * 1024)).catch(() => undefined)
  let status = 201
  for (let count = 0; status === 201 && count < 2_000; count++) {
    const body = { name: `Team ${count}` }
    status = (await service.call('POST', '/v1/workspace/main/team', { token: session, body })).status
  }
  expect(status).toBe(503)
  expect(service.logs.filter((line) => line.includes('because the disk of the store is full: make room'))).toHaveLength(
    1,
  )
  const ready = await fetch(`${service.url}/readyz?verbose`)
  expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining('The disk of the store is full')])
  const { port } = new URL(service.url)
  const { out } = await runHere(['doctor'], { COFFER_DATA_DIR: dataDir, COFFER_PORT: port })
  expect(out).toContain(`  wrong  disk: the disk of ${dataDir} is full.`)
  expect(out).toContain('is not ready: "The disk of the store is full, so it refuses writes."')
  await rm(ballast)
  expect((await service.call('GET', '/readyz')).status).toBe(200)
})
