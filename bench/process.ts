/** Starts the service and the reference servers as separate processes on the current Node. */

import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setupCode } from '../test/setup-code.ts'
import { startArguments, startEnvironment } from '../test/start-command.ts'
import { makeFolder } from './scratch.ts'

const root = join(import.meta.dirname, '..')

// An interrupted run must not leave child processes behind.
const children = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** COFFER_* variables of another service on this machine must not reach the measured one. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('COFFER_')))

export type Running = {
  readonly url: string
  readonly startMs: number
  residentMb(): number
  /** Processor time of all threads so far, without waiting. */
  cpuMs(): number
  stop(): Promise<void>
}

async function start(args: readonly string[], env: Record<string, string> = {}): Promise<Running> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...environment, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.add(child)
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      children.delete(child)
      resolve()
    })
  })
  const port = await portOf(child)
  return {
    url: `http://127.0.0.1:${port}`,
    startMs: performance.now() - startedAt,
    residentMb: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    cpuMs: () => {
      const tasks = `/proc/${child.pid}/task`
      const spent = (task: string) => Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0])
      return readdirSync(tasks).reduce((sum, task) => sum + spent(task), 0) / 1e6
    },
    stop: () => {
      child.kill('SIGTERM')
      return ended
    },
  }
}

/** A process listens once it has printed its port. */
function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout?.on('data', (chunk) => {
      text += chunk
      const port = /"port":(\d+)/.exec(text)?.[1]
      if (port) resolve(Number(port))
    })
    child.once('close', (code) => reject(new Error(`the process exited with ${code} before it was ready`)))
  })
}

/** The same command as `npm start`, after the build. */
export const startService = (dataDir: string, settings: Record<string, string> = {}): Promise<Running> =>
  start(startArguments, {
    ...startEnvironment,
    COFFER_DATA_DIR: dataDir,
    COFFER_PORT: '0',
    COFFER_PUBLIC_URL: 'http://localhost:8080',
    COFFER_RATE_LIMIT: '0',
    COFFER_EXCHANGE_RATE_LIMIT: '0',
    COFFER_SHARE_RATE_LIMIT: '0',
    COFFER_SETUP_CODE: setupCode,
    COFFER_OUTBOUND_ALLOW: '127.0.0.1',
    ...settings,
  })

/** Headers that Node sets itself, in both servers alike. */
const nodeHeaders = ['connection', 'date', 'keep-alive', 'transfer-encoding']

/** Repeats the status, headers and body of a response of the service. */
export const startBare = (response: Response): Promise<Running> => startReference('bench/bare.ts', response)

/** Sends the same headers after the minimum work of a durable write. */
export const startLeast = (response: Response): Promise<Running> => startReference('bench/least.ts', response)

/** Sends the same answer after the minimum work of a request that is recorded in PostgreSQL. */
export const startLeastNode = (
  response: Response,
  target: string,
  order: 'lock' | 'free' | 'forward',
): Promise<Running> => startReference('bench/nodes/least.ts', response, target, order)

async function startReference(program: string, response: Response, ...args: string[]): Promise<Running> {
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !nodeHeaders.includes(name)))
  const answer = { status: response.status, headers, body: await response.text() }
  const file = join(makeFolder(), 'answer.json')
  writeFileSync(file, JSON.stringify(answer))
  return start([program, file, ...args])
}
