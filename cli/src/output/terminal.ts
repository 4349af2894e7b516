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

export function openTerminal(env: Environment, flags: Pick<GlobalFlags, 'no-input' | 'no-color'>): Terminal {
  const { stdin, stdout, stderr } = process
  const isAllowed = !flags['no-input'] && !env.COFFER_NO_INPUT && !isSet(env.CI)
  return {
    stdin,
    stdout,
    stderr,
    isInteractive: isAllowed && stdin.isTTY === true && stderr.isTTY === true,
    hasColor: stdout.isTTY === true && !flags['no-color'] && !env.NO_COLOR && env.TERM !== 'dumb',
  }
}
