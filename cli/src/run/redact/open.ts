/** Which values are hidden in the output of the command. */
import { fstatSync } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Context } from '../../context.ts'
import { isSet } from '../../environment.ts'
import type { ChildEnvironment } from '../child-environment.ts'
import { formsOf, isHidden, linesOf } from './forms.ts'
import { type Pipe, pipeRedacted } from './pipe.ts'
import { createRedactor } from './redactor.ts'

/** Copies a stream of the command to our own of this number, without the values. */
export type CopyStream = (source: Readable, fd: number) => Pipe

export function openRedactor(environment: ChildEnvironment, shown: readonly string[]): CopyStream {
  const redactor = createRedactor(formsOf(hiddenValues(environment, shown)))
  return (source, fd) => pipeRedacted(source, fd, redactor)
}

const hiddenValues = ({ secrets }: ChildEnvironment, shown: readonly string[]): string[] =>
  [...secrets].filter(([name, { value }]) => !shown.includes(name) && isHidden(value)).map(([, { value }]) => value)

/**
 * The runner of GitHub Actions hides values in the logs of all later steps too, but only line by line. It reads commands
 * from stderr as well, which is rarely piped into other programs. A file would only keep the values.
 */
export function maskInGithub(
  { env, terminal, out }: Context,
  environment: ChildEnvironment,
  shown: readonly string[],
): void {
  if (!isSet(env.GITHUB_ACTIONS) || fstatSync(2).isFile()) return
  if (isJoined()) {
    out.warn('coffer: stderr is joined with stdout, so GitHub is not told what to mask.')
    return
  }
  const lines = hiddenValues(environment, shown).flatMap((value) => (value.includes('\n') ? linesOf(value) : [value]))
  for (const line of new Set(lines)) {
    terminal.stderr.write(`::add-mask::${line.replaceAll('%', '%25').replaceAll('\r', '%0D')}\n`)
  }
}

/** After `2>&1 | tee build.log`, which would keep the values. The runner reads the two streams from two pipes. */
function isJoined(): boolean {
  const [stdout, stderr] = [fstatSync(1), fstatSync(2)]
  return stdout.ino === stderr.ino && stdout.dev === stderr.dev
}
