/** The program as an operator runs it: a process of its own, with nothing in its environment but what it is given. */
import { type ChildProcess, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

export type Program = {
  readonly child: ChildProcess
  /** What it has printed so far. */
  readonly out: () => string
  readonly err: () => string
  readonly ended: Promise<Ended>
  readonly hasEnded: () => boolean
  kill(signal: NodeJS.Signals): void
}

export type Settings = Readonly<Record<string, string>>

const root = join(import.meta.dirname, '..')
const living = new Set<ChildProcess>()
// A test that fails must not leave its processes behind.
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

const main = join(root, 'server/src/main.ts')

/** `node server/src/main.ts …` */
export function startProgram(args: readonly string[], settings: Settings = {}): Program {
  return startNode([main, ...args], settings)
}

export function startNode(args: readonly string[], settings: Settings = {}): Program {
  return startCommand(process.execPath, args, settings)
}

/** `npm …` with a process group of its own, by which whoever it leaves behind can be ended: `endGroup`. */
export function startNpm(args: readonly string[], settings: Settings = {}): Program & { endGroup(): void } {
  const program = startCommand('npm', args, settings, true)
  const endGroup = () => {
    try {
      process.kill(-Number(program.child.pid), 'SIGKILL')
    } catch {
      // Nobody is left.
    }
  }
  return { ...program, endGroup }
}

function startCommand(command: string, args: readonly string[], settings: Settings, detached = false): Program {
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, NODE_COMPILE_CACHE: join(tmpdir(), 'coffer-test-compiled'), ...settings }
  const child = spawn(command, args, { cwd: root, env, detached, stdio: ['pipe', 'pipe', 'pipe'] })
  living.add(child)
  const printed = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed.err += text
  })
  // A process that was killed takes no more input.
  child.stdin.on('error', () => undefined)
  let hasEnded = false
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      living.delete(child)
      hasEnded = true
      resolve({ code, signal, ...printed })
    })
  })
  return {
    child,
    out: () => printed.out,
    err: () => printed.err,
    ended,
    hasEnded: () => hasEnded,
    kill: (signal) => void child.kill(signal),
  }
}

export async function runProgram(args: readonly string[], settings: Settings = {}): Promise<Ended> {
  return startProgram(args, settings).ended
}

export type Listening = {
  readonly program: Program
  readonly url: string
  readonly port: number
  /** The messages that it has logged so far. */
  readonly messages: () => string[]
  /** Ends it in an orderly way. */
  stop(): Promise<Ended>
  /** Ends it as a power failure would. */
  destroy(): Promise<Ended>
}

/** The service, listening on a free port unless the settings name one. */
export async function startListening(settings: Settings, nodeArgs: readonly string[] = []): Promise<Listening> {
  return listening(
    startNode([...nodeArgs, main], {
      COFFER_PORT: '0',
      COFFER_RATE_LIMIT: '0',
      COFFER_SHARE_RATE_LIMIT: '0',
      ...settings,
    }),
  )
}

/** A program that serves, once it does. */
export async function listening(program: Program): Promise<Listening> {
  const port = await until(
    () => {
      if (program.hasEnded()) throw new Error(`the service exited at startup: ${program.err()}${program.out()}`)
      const line = program
        .out()
        .split('\n')
        .find((text) => text.includes('"listening"'))
      return line === undefined ? undefined : Number(JSON.parse(line).port)
    },
    30_000,
    'the service listens',
  ).catch((error: unknown) => {
    program.kill('SIGKILL')
    throw error
  })
  const url = `http://127.0.0.1:${port}`
  const end = (signal: NodeJS.Signals) => () => {
    program.kill(signal)
    return program.ended
  }
  return {
    program,
    url,
    port,
    messages: () => messagesOf(program.out()),
    stop: end('SIGTERM'),
    destroy: end('SIGKILL'),
  }
}

export function messagesOf(log: string): string[] {
  const lines = log.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'))
  return lines.map((line) => String(JSON.parse(line).msg))
}

/** Asks again and again until there is an answer, for the last time after the deadline: how long an answer takes is no matter. */
export async function until<Result>(
  ask: () => Result | undefined | Promise<Result | undefined>,
  deadlineMs: number,
  what: string,
): Promise<Result> {
  const startedAt = performance.now()
  while (true) {
    const askedAt = performance.now()
    const answer = await ask()
    if (answer !== undefined) return answer
    if (askedAt - startedAt > deadlineMs) throw new Error(`not within ${deadlineMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** How many milliseconds pass until it is stopped, but for those in which this process, or the machine, stands still. */
export function startWatch(): { stop(): number } {
  const everyMs = 10
  let passedMs = 0
  const timer = setInterval(() => {
    passedMs += everyMs
  }, everyMs)
  return {
    stop: () => {
      clearInterval(timer)
      return passedMs
    },
  }
}

/** Fails where it takes longer. */
export async function withinSeconds<Result>(seconds: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} seconds`)), seconds * 1_000)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
