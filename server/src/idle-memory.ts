/**
 * Finds out when the service has become idle, so that memory can be returned to the system. V8 keeps the pages of a past
 * load for as long as little is allocated.
 */

/** Processor time as a share of one core. An idle service polls its store and takes less. */
const quietShare = 0.1
const quietLooks = 3
const grownBytes = 8 * 1024 * 1024

type Look = { readonly cpuMs: number; readonly elapsedMs: number; readonly residentBytes: number }

function lookAtProcess(): Look {
  const { user, system } = process.cpuUsage()
  return {
    cpuMs: (user + system) / 1_000,
    elapsedMs: performance.now(),
    residentBytes: process.memoryUsage.rss(),
  }
}

/**
 * Returns a function to call every few seconds. It calls `release` if memory has grown since the last time, when several
 * looks in a row have found the process idle.
 */
export function createIdleWatch(release: () => void, look: () => Look = lookAtProcess): () => void {
  let last = look()
  let restingBytes = 0
  let quiet = 0
  return () => {
    const now = look()
    const isQuiet = now.cpuMs - last.cpuMs < quietShare * (now.elapsedMs - last.elapsedMs)
    last = now
    quiet = isQuiet ? quiet + 1 : 0
    if (quiet < quietLooks || now.residentBytes < restingBytes + grownBytes) return
    release()
    // Whatever is left is in use: only growth beyond it is worth another release.
    last = look()
    restingBytes = last.residentBytes
  }
}
