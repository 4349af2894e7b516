/** A real PgBouncer in transaction mode in front of a PostgreSQL. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './postgres.ts'
import { until } from './wait.ts'

/** Fewer connections than one node alone would open. */
const serverConnections = 6
const patienceMs = 10_000

export async function startPgbouncer(postgresPort: number) {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-pgbouncer-'))
  await chmod(folder, 0o755)
  const port = await freePort()
  const [file, users] = [join(folder, 'pgbouncer.ini'), join(folder, 'users.txt')]
  await writeFile(users, '"coffer" "coffer"\n')
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${postgresPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
auth_type = plain
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${serverConnections}
max_client_conn = 200
unix_socket_dir =
`,
  )
  // It refuses to run as root.
  const args = process.getuid?.() === 0 ? ['-u', 'postgres', file] : [file]
  let child: ChildProcess

  async function start(): Promise<void> {
    child = spawn('pgbouncer', args, { stdio: 'ignore' })
    await until(() => isListening(port), 120_000, 'PgBouncer listens')
  }
  /** Since version 1.23, SIGTERM waits for the clients to leave, which keep their connections. */
  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const ended = once(child, 'close')
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
    await ended.finally(() => clearTimeout(timer))
  }
  await start()
  return {
    urlOf: (database: string) => `postgres://coffer:coffer@127.0.0.1:${port}/${database}`,
    start,
    end,
    stop: async () => {
      await end('SIGTERM')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function isListening(port: number): Promise<true | undefined> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}
