/** A real in-memory Redis for a test, on its own port. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from './postgres.ts'

export type TestRedis = {
  readonly url: string
  /** Kills the process, like a crash. */
  kill(): Promise<void>
  /** Restarts it on the same port, empty. */
  start(): Promise<void>
  /** Keeps connections open without answering until `thaw`. */
  freeze(): void
  thaw(): void
}

export async function startRedis(): Promise<TestRedis> {
  const port = await freePort()
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', '/tmp']
    const started = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] })
    child = started
    await new Promise<void>((resolve, reject) => {
      let output = ''
      started.once('error', reject)
      started.once('exit', () => reject(new Error(`redis-server exited: ${output}`)))
      started.stdout?.on('data', (chunk) => {
        output += chunk
        if (output.includes('Ready to accept connections')) resolve()
      })
    })
  }

  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    kill: async () => {
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  }
}
