/** The service and the yardstick as processes of their own, on the Node that runs this. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from './scratch.ts'

const root = join(import.meta.dirname, '..')

// A run that is broken off must not leave its processes behind.
const living = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/** What is set for another service on this machine must not reach the one that is measured. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('COFFER_')))

export type Running = {
  readonly url: string
  readonly startMs: number
  residentMb(): number
  /** What its threads have computed so far; waiting costs nothing here. */
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
  living.add(child)
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      living.delete(child)
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

/** The first line of output that names a port says that it listens. */
function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout?.on('data', (chunk) => {
      text += chunk
      const port = /"port":(\d+)/.exec(text)?.[1]
      if (port) resolve(Number(port))
    })
    child.once('close', (code) => reject(new Error(`the process ended with ${code} before it was ready`)))
  })
}

/** The very command of `npm start`. */
const { scripts }: { scripts: { start: string } } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const serviceArgs = scripts.start.replace(/^exec node /, '').split(' ')

export const startService = (dataDir: string, settings: Record<string, string> = {}): Promise<Running> =>
  start(serviceArgs, {
    COFFER_DATA_DIR: dataDir,
    COFFER_PORT: '0',
    COFFER_PUBLIC_URL: 'http://localhost:8080',
    COFFER_RATE_LIMIT: '0',
    COFFER_EXCHANGE_RATE_LIMIT: '0',
    COFFER_SHARE_RATE_LIMIT: '0',
    COFFER_OUTBOUND_ALLOW: '127.0.0.1',
    ...settings,
  })

/** Node sets these by itself, in both servers alike. */
const byNode = ['connection', 'date', 'keep-alive', 'transfer-encoding']

/** Sends the very status, headers and body of an answer of the service. */
export const startBare = (response: Response): Promise<Running> => startBeside('bench/bare.ts', response)

/** Sends the same headers, once it has done the least that a write asks for. */
export const startLeast = (response: Response): Promise<Running> => startBeside('bench/least.ts', response)

async function startBeside(program: string, response: Response): Promise<Running> {
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !byNode.includes(name)))
  const answer = { status: response.status, headers, body: await response.text() }
  const file = join(makeFolder(), 'answer.json')
  writeFileSync(file, JSON.stringify(answer))
  return start([program, file])
}
