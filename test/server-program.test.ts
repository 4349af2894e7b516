/** The bundle of the service that the tests start. */
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { dropLeftovers } from './server-program.ts'

test('bundles of killed runs are removed, and nothing else', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { pid: ended } = spawnSync('true')
  const running = `.coffer-test-${process.pid}`
  for (const name of [`.coffer-test-${ended}`, running, '.coffer-test-', 'package']) {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'main.js'), '')
  }
  dropLeftovers(folder)
  expect((await readdir(folder)).sort()).toEqual(['.coffer-test-', running, 'package'])
})
