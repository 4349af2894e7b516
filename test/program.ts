/** Runs programs as an operator would: each a separate process with only the given environment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './wait.ts'

export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

export type Program = {
  readonly child: ChildProcess
  /** Output so far. */
  readonly out: () => string
  readonly err: () => string
  readonly ended: Promise<Ended>
  readonly hasEnded: () => boolean
  kill(signal: NodeJS.Signals): void
}

export type Settings = Readonly<Record<string, string>>

const root = join(import.meta.dirname, '..')
const children = new Set<ChildProcess>()
// A failing test must not leave child processes behind.
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

export function startNode(args: readonly string[], settings: Settings = {}): Program {
  return startCommand(process.execPath, args, settings)
}

export const startNpm = (args: readonly string[], settings: Settings = {}) => startGroup('npm', args, settings)

/** A command in its own process group; `endGroup` kills everything it left behind. */
export function startGroup(
  command: string,
  args: readonly string[],
  settings: Settings = {},
): Program & { endGroup(): void } {
  const program = startCommand(command, args, settings, { detached: true })
  const endGroup = () => {
    try {
      process.kill(-Number(program.child.pid), 'SIGKILL')
    } catch {
      // The group has already ended.
    }
  }
  return { ...program, endGroup }
}

type CommandOptions = { readonly cwd?: string; readonly detached?: boolean }

/** In the folder of the repository, unless the options name another. */
export function startCommand(
  command: string,
  args: readonly string[],
  settings: Settings = {},
  { cwd = root, detached = false }: CommandOptions = {},
): Program {
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, NODE_COMPILE_CACHE: join(tmpdir(), 'coffer-test-compiled'), ...settings }
  const child = spawn(command, args, { cwd, env, detached, stdio: ['pipe', 'pipe', 'pipe'] })
  children.add(child)
  const printed = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed.err += text
  })
  // Writing to a killed process fails.
  child.stdin.on('error', () => undefined)
  let hasEnded = false
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      children.delete(child)
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

export type Listening = {
  readonly program: Program
  readonly url: string
  readonly port: number
  /** Messages logged so far. */
  readonly messages: () => string[]
  /** Stops it with SIGTERM. */
  stop(): Promise<Ended>
  /** Kills it, like a power failure. */
  destroy(): Promise<Ended>
}

/** Resolves once the program listens. */
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
    120_000,
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
