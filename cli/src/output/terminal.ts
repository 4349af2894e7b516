/** The streams of the process: what may be asked, and what may be coloured. */
import { type Environment, isSet } from '../environment.ts'
import type { GlobalFlags } from '../flag.ts'

export type Terminal = {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** True if a person can be asked: stdin and stderr are terminals, and nothing forbids it. */
  readonly isInteractive: boolean
  readonly hasColor: boolean
}

/** Each stream is opened with its first use: opening one takes a tenth of the start of a command. */
export function openTerminal(env: Environment, flags: Pick<GlobalFlags, 'no-input' | 'no-color'>): Terminal {
  const isAllowed = !flags['no-input'] && !env.COFFER_NO_INPUT && !isSet(env.CI)
  let stdout: NodeJS.WriteStream | undefined
  let stderr: NodeJS.WriteStream | undefined
  return {
    get stdin() {
      return process.stdin
    },
    get stdout() {
      // A reader that closes its end, such as `head`, ends the command without a message.
      stdout ??= process.stdout.on('error', ({ code = 'unknown' }: NodeJS.ErrnoException) => {
        if (code === 'EPIPE') process.exit(141)
        process.stderr.write(`coffer: The output cannot be written (${code}).\n`)
        process.exit(1)
      })
      return stdout
    },
    get stderr() {
      stderr ??= process.stderr.on('error', () => undefined)
      return stderr
    },
    get isInteractive() {
      return isAllowed && process.stdin.isTTY === true && process.stderr.isTTY === true
    },
    get hasColor() {
      return process.stdout.isTTY === true && !flags['no-color'] && !env.NO_COLOR && env.TERM !== 'dumb'
    },
  }
}
