/** The command as a child process. */
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { CliError } from '../error.ts'
import { awaitEnd, descendantsOf, send } from './leftover.ts'
import type { CopyStream } from './redact/open.ts'

type Launch = {
  readonly command: readonly string[]
  /** Where a command without a slash is looked for if the child has no PATH. */
  readonly path: string | undefined
  readonly cwd: string
  readonly variables: Readonly<Record<string, string>>
  /** A group of its own, so that signals reach everything that the command has started. */
  readonly ownGroup: boolean
  /** Copies the streams that are no terminals. */
  readonly copy: CopyStream | undefined
}

export type Outcome = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

export type Child = {
  readonly ended: Promise<Outcome>
  signal(signal: NodeJS.Signals): void
  /** Asks the child to end, and after the grace period makes it end, with everything that it has started. */
  stop(graceMs: number): void
}

/** Throws a CliError if the command cannot be started. */
export function startChild(launch: Launch): Child {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const { variables, cwd, ownGroup, copy } = launch
  const [name = '', ...args] = launch.command
  const hidden = (fd: number) => (copy && !process.getBuiltinModule('node:tty').isatty(fd) ? 'pipe' : 'inherit')
  const stdio: StdioOptions = ['inherit', hidden(1), hidden(2)]
  const file = variables.PATH === undefined ? findProgram(name, launch.path) : name
  let child: ChildProcess
  try {
    child = spawn(file, args, { argv0: name, cwd, env: variables, detached: ownGroup, stdio })
  } catch (error) {
    throw startError(error, launch)
  }
  const pipes = copy
    ? [...(child.stdout ? [copy(child.stdout, 1)] : []), ...(child.stderr ? [copy(child.stderr, 2)] : [])]
    : []
  const ended = new Promise<Outcome>((resolve, reject) => {
    // After an error `exit` does not follow, but `close` does, with a code that is none.
    child.once('error', (error) => {
      if (child.pid === undefined) reject(startError(error, launch))
    })
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })

  function signal(signal: NodeJS.Signals): void {
    // `child.killed` only says that a signal has been sent.
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    send(ownGroup ? -child.pid : child.pid, signal)
  }

  let left = Promise.resolve()

  return {
    ended: ended.then(async (outcome) => {
      await left
      await Promise.all(pipes.map((pipe) => pipe.finish()))
      return outcome
    }),
    signal,
    stop(graceMs) {
      if (child.pid === undefined) return
      const started = ownGroup ? [-child.pid] : descendantsOf(child.pid)
      const stoppedAt = performance.now()
      signal('SIGTERM')
      const timer = setTimeout(signal, graceMs, 'SIGKILL')
      child.once('exit', () => {
        clearTimeout(timer)
        // Not before: a command that forwards signals would pass on a second one.
        if (!ownGroup) for (const id of started) send(id, 'SIGTERM')
        left = awaitEnd(started, graceMs - (performance.now() - stoppedAt))
      })
    },
  }
}

function findProgram(name: string, path = ''): string {
  if (name.includes('/')) return name
  const files = path.split(delimiter).map((folder) => join(folder || '.', name))
  return files.find(isExecutable) ?? name
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** Never with the message of Node, which may quote the environment. */
function startError(error: unknown, { command: [name = ''], variables }: Launch): CliError {
  const { code = 'unknown' } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return new CliError('commandNotFound', `${name}: there is no such command.`)
  if (code === 'E2BIG') {
    const bytes = Object.entries(variables).reduce(
      (sum, [name, value]) => sum + name.length + Buffer.byteLength(value) + 2,
      0,
    )
    return new CliError(
      'runFailed',
      `The command and its variables are too large for this system: the variables take ${Math.ceil(bytes / 1024)} KiB.`,
      '--only KEY,KEY',
    )
  }
  const isRefused = ['EACCES', 'ENOEXEC', 'EISDIR', 'ENOTDIR', 'ELOOP', 'ETXTBSY', 'EPERM'].includes(code)
  return new CliError(isRefused ? 'cannotExecute' : 'runFailed', `${name} cannot be started (${code}).`)
}
