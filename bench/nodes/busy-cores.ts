/**
 * Work of the lowest priority on every core. Threads that share a core slow each other down, so a load that leaves a core
 * idle would seem cheaper per request than one that uses them all.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism, constants, setPriority } from 'node:os'

export function keepCoresBusy(): { stop(): void } {
  const spinning = Array.from({ length: availableParallelism() }, startSpinning)
  const stop = () => {
    for (const child of spinning) child.kill('SIGKILL')
  }
  process.once('exit', stop)
  return { stop }
}

function startSpinning(): ChildProcess {
  const child = spawn(process.execPath, ['--eval', 'for (;;) {}'], { stdio: 'ignore' })
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  return child
}
