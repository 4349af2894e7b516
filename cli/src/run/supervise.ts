/** Runs the command until it ends, and starts it again when its variables have changed. */
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { type Child, type Outcome, startChild } from './child.ts'
import { type ChildEnvironment, changedNames, listNames } from './child-environment.ts'
import type { CopyStream } from './redact/open.ts'
import { handleSignals, hasTerminal } from './signals.ts'

type SuperviseOptions = {
  readonly command: readonly string[]
  readonly redactorOf: (environment: ChildEnvironment) => CopyStream | undefined
  readonly graceMs: number
}

type Supervised = {
  readonly ended: Promise<Outcome>
  /** Restarts the command if the variables differ. */
  update(environment: ChildEnvironment): void
}

/** Signals that mean the end, even if the command takes its time. To many commands SIGHUP says to read their settings. */
const ending: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT']

export function supervise(ctx: Context, first: ChildEnvironment, options: SuperviseOptions): Supervised {
  const isTerminal = hasTerminal()
  let child: Child | undefined
  /** What the running child has, and what the next one is to have. */
  let current = first
  let next: ChildEnvironment | undefined
  let isInterrupted = false

  // Before the child exists: a signal in between would end this process and leave the child alone.
  handleSignals(isTerminal, (signal, isForwarded) => {
    if (ending.includes(signal) || (next && signal === 'SIGHUP')) isInterrupted = true
    if (isForwarded) child?.signal(signal)
  })

  async function run(): Promise<Outcome> {
    for (;;) {
      child = startChild({
        command: options.command,
        path: ctx.env.PATH,
        cwd: ctx.cwd,
        variables: current.variables,
        ownGroup: !isTerminal,
        copy: options.redactorOf(current),
      })
      const outcome = await child.ended
      if (!next || isInterrupted) return outcome
      current = next
      next = undefined
    }
  }

  return {
    ended: run(),
    update(environment) {
      if (isInterrupted) return
      const names = changedNames(next ?? current, environment)
      if (names.length === 0) return
      const isStopping = next !== undefined
      next = environment
      ctx.out.warn(`coffer: ${listNames(names)} changed; restarting the command.`)
      if (!isStopping) child?.stop(options.graceMs)
    },
  }
}

/** For a command that cannot be started: the exit code tells why. */
export const isStartError = (error: unknown): error is CliError =>
  error instanceof CliError && (error.exit === 'cannotExecute' || error.exit === 'commandNotFound')
