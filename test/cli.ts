/** Runs the real command line as a user would: in a process of its own, with a home of its own, with or without a terminal. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { inject, onTestFinished } from 'vitest'
import { until } from './wait.ts'

type Variables = Readonly<Record<string, string | undefined>>

export type Shell = {
  readonly home: string
  /** The folder that commands start in. It has no .coffer.json. */
  readonly cwd: string
  /** Starts `coffer …` without a terminal. */
  start(args: readonly string[], options?: StartOptions): Running
  /** `coffer …` without a terminal, until its end. */
  coffer(args: readonly string[], options?: StartOptions): Promise<Outcome>
  /** `coffer …` in a pseudo-terminal. */
  terminal(args: readonly string[], options?: StartOptions): TerminalSession
}

type StartOptions = {
  readonly env?: Variables
  readonly cwd?: string
  /** Written to stdin, which is then closed. Without it stdin is empty. */
  readonly input?: string | Buffer
  /** Width of the pseudo-terminal. By default it is wide, so that no question is wrapped. */
  readonly columns?: number
}

export type Outcome = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

export type Running = {
  readonly child: ChildProcess
  out(): string
  err(): string
  readonly ended: Promise<Outcome>
}

type TerminalSession = {
  /** Everything that the screen has shown, without escape sequences. */
  screen(): string
  /** Waits until the screen shows the text, after what has been waited for before. */
  see(text: string | RegExp): Promise<void>
  type(text: string): void
  readonly ended: Promise<Outcome>
}

/** A home and a folder that are removed with the test. `env` is added to the environment of every command. */
export function openShell(env: Variables = {}): Shell {
  const start = inject('commandLine')
  const home = mkdtempSync(join(tmpdir(), 'coffer-home-'))
  const cwd = mkdtempSync(join(tmpdir(), 'coffer-cwd-'))
  const children = new Set<ChildProcess>()
  onTestFinished(() => {
    for (const { pid, exitCode, signalCode } of children) {
      if (pid === undefined || exitCode !== null || signalCode !== null) continue
      try {
        // With everything that it has started: it leads a group of its own.
        process.kill(-pid, 'SIGKILL')
      } catch {
        // It has just ended.
      }
    }
    for (const folder of [home, cwd]) rmSync(folder, { recursive: true, force: true })
  })

  function launch(command: string, args: readonly string[], options: StartOptions): Running {
    const { PATH } = process.env
    const base = { PATH, HOME: home, TMPDIR: tmpdir(), NODE_COMPILE_CACHE: join(tmpdir(), 'coffer-test-compiled') }
    const child = spawn(command, args, {
      cwd: options.cwd ?? cwd,
      env: { ...base, ...env, ...options.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      // A session of its own, without the terminal that the tests may have been started from.
      detached: true,
    })
    children.add(child)
    const printed = { out: '', err: '' }
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed.out += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      printed.err += text
    })
    child.stdin.on('error', () => undefined)
    const ended = new Promise<Outcome>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => resolve({ code, signal, ...printed }))
    })
    return { child, out: () => printed.out, err: () => printed.err, ended }
  }

  const startCoffer = (args: readonly string[], options: StartOptions = {}) => {
    const running = launch(process.execPath, [start, ...args], options)
    running.child.stdin?.end(options.input ?? '')
    return running
  }

  return {
    home,
    cwd,
    start: startCoffer,
    coffer: (args, options) => startCoffer(args, options).ended,
    terminal(args, options = {}) {
      const words = [process.execPath, start, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`)
      // `script` gives its command a terminal, and ends with the exit code of the command.
      const { columns = 200 } = options
      const running = launch('script', ['-qec', `stty cols ${columns} rows 50; exec ${words.join(' ')}`, '/dev/null'], {
        ...options,
        env: { TERM: 'xterm', CI: undefined, ...options.env },
      })
      const screen = () => stripVTControlCharacters(running.out())
      let seen = 0
      return {
        screen,
        ended: running.ended,
        type: (text) => void running.child.stdin?.write(text),
        async see(text) {
          await until(
            () => {
              const left = screen().slice(seen)
              const found = typeof text === 'string' ? left.indexOf(text) : left.search(text)
              if (found >= 0) seen += found + (typeof text === 'string' ? text.length : 1)
              return found >= 0 || undefined
            },
            120_000,
            `the screen shows ${text}`,
          )
        },
      }
    },
  }
}
