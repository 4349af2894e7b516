/** Processes that a command has started, and that outlive it: a shell ends at SIGTERM, its own command may not even get it. */

/** How often to look whether they have ended. */
const pauseMs = 50

/** A negative id is that of a group. */
export function send(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal)
  } catch {
    // It has ended.
    return false
  }
}

/** Everything that a process has started, as far as its parents are alive. Empty on systems without `ps`. */
export function descendantsOf(root: number): number[] {
  const { spawnSync } = process.getBuiltinModule('node:child_process')
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
  const rows = (stdout ?? '').split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  const found = [root]
  for (const parent of found) {
    for (const [id, parentId] of rows) if (id && parentId === parent) found.push(id)
  }
  return found.slice(1)
}

/** Waits until all have ended, and kills the rest after the time. */
export async function awaitEnd(ids: readonly number[], limitMs: number): Promise<void> {
  const { setTimeout: sleep } = process.getBuiltinModule('node:timers/promises')
  const isAlive = (id: number) => send(id, 0)
  for (let leftMs = limitMs; leftMs > 0 && ids.some(isAlive); leftMs -= pauseMs) await sleep(pauseMs)
  for (const id of ids.filter(isAlive)) send(id, 'SIGKILL')
}
