/** Signals of the command line and of its child. */
import { closeSync, constants, openSync } from 'node:fs'

/** A terminal sends these to every process in front of it, the child included. */
const ofTerminal: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT']
const forwarded: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']

/** True if Ctrl-C can reach this process: redirected streams do not matter. */
export function hasTerminal(): boolean {
  if (process.platform === 'win32') return true
  try {
    closeSync(openSync('/dev/tty', constants.O_RDWR | constants.O_NOCTTY))
    return true
  } catch {
    return false
  }
}

/**
 * Keeps this process alive on signals. `onSignal` is called for those that are to be forwarded, and for those that the
 * child receives by itself.
 */
export function handleSignals(
  isTerminal: boolean,
  onSignal: (signal: NodeJS.Signals, isForwarded: boolean) => void,
): void {
  for (const signal of ofTerminal) process.on(signal, () => onSignal(signal, !isTerminal))
  for (const signal of forwarded) process.on(signal, () => onSignal(signal, true))
}

/** Core dumps would hold the secrets, and SIGUSR1 opens the debugger of Node. */
const notRaised: readonly NodeJS.Signals[] = [
  'SIGQUIT',
  'SIGILL',
  'SIGTRAP',
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGSEGV',
  'SIGXCPU',
  'SIGXFSZ',
  'SIGSYS',
  'SIGUSR1',
]

/** Ends this process as the child ended. Returns the exit code, as a shell reports it, if the signal cannot be raised. */
export function raiseSignal(signal: NodeJS.Signals): number {
  if (!notRaised.includes(signal)) {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  }
  return 128 + (process.getBuiltinModule('node:os').constants.signals[signal] ?? 0)
}
