/**
 * Finds out when the service has become idle, so that memory can be returned to the system. V8 keeps the pages of a past
 * load for as long as little is allocated.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Processor time as a share of one core. An idle service polls its store and takes less. */
const quietShare = 0.05
const quietLooks = 3
const grownBytes = 8 * 1024 * 1024
/** A service with few requests looks idle too: without a load in between, it must not stop for a release again and again. */
const pauseMs = 10 * 60_000

/** Makes `gc` known, without an option of Node: the first line of the package has no room for one. */
export function exposeCollector(): void {
  setFlagsFromString('--expose-gc')
  globalThis.gc = runInNewContext('gc')
}

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
  let pausesUntil = 0
  return () => {
    const now = look()
    const isQuiet = now.cpuMs - last.cpuMs < quietShare * (now.elapsedMs - last.elapsedMs)
    last = now
    quiet = isQuiet ? quiet + 1 : 0
    if (!isQuiet) pausesUntil = 0
    if (quiet < quietLooks || now.elapsedMs < pausesUntil || now.residentBytes < restingBytes + grownBytes) return
    release()
    pausesUntil = now.elapsedMs + pauseMs
    // Whatever is left is in use: only growth beyond it is worth another release.
    last = look()
    restingBytes = last.residentBytes
  }
}
