/** Runs a command in this process: a separate process takes most of a second to start. */
import { vi } from 'vitest'
import { runCommand } from '../server/src/command.ts'
import type { Ended, Settings } from './program.ts'

/** For commands that end and starts that are refused. Log lines are not captured: they bypass `process.stdout`. */
export async function runHere(
  args: readonly string[],
  settings: Settings = {},
): Promise<Pick<Ended, 'code' | 'out' | 'err'>> {
  const printed = { out: '', err: '' }
  const capture = (stream: NodeJS.WriteStream, name: 'out' | 'err') =>
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      printed[name] += String(text)
      return true
    })
  const captured = [capture(process.stdout, 'out'), capture(process.stderr, 'err')]
  try {
    return { code: await runCommand(args, settings), ...printed }
  } finally {
    for (const stream of captured) stream.mockRestore()
  }
}
