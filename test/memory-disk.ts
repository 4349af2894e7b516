/** A folder for the databases of a test run. */
import { rmSync } from 'node:fs'
import { mkdtemp, statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    databaseFolder: string
  }
}

/** A RAM disk. */
const memoryDisk = '/dev/shm'
const neededBytes = 6 * 1024 ** 3

/** Commits on a RAM disk wait for no disk. Data still survives the kill of a process or server. */
export async function fastFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(memoryDisk).catch(() => ({ bavail: 0, bsize: 0 }))
  return Math.min(bavail * bsize, freemem()) > neededBytes ? memoryDisk : tmpdir()
}

/** One folder for all databases of a project, removed however the run ends: leftovers would stay in memory. */
export async function provideDatabaseFolder(project: TestProject) {
  const folder = await mkdtemp(join(await fastFolder(), 'coffer-test-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  // An interrupted run has no teardown.
  process.once('exit', remove)
  project.provide('databaseFolder', folder)
  return {
    folder,
    remove: async () => {
      process.removeListener('exit', remove)
      remove()
    },
  }
}
