/**
 * Returns memory to the system when the service has become idle: V8 keeps the pages of a past load for as long as little
 * is allocated.
 */
import type { Services } from '../domain/context.ts'

/** Between two looks; the service is idle if it took less than this share of a core meanwhile, as its own polling does. */
export const lookMs = 15_000
const quietShare = 0.05
const grownBytes = 8 * 1024 * 1024
/** A service with few requests looks idle too: without a load in between, it must not stop for a release again and again. */
const pauseMs = 10 * 60_000

/** Drops the cached responses, which hold values, and collects all garbage. */
export function createMemoryJob({ log, responseCache }: Services): () => Promise<void> {
  const look = createIdleWatch(() => {
    responseCache.clear()
    // `serve` makes it known; a service within another program, as in tests, has none.
    if (!globalThis.gc) return
    const startedAt = performance.now()
    globalThis.gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    log.debug('idle: unused memory was returned to the system', { ms: Math.round(performance.now() - startedAt) })
  })
  return async () => look()
}

function lookAtProcess() {
  const { user, system } = process.cpuUsage()
  return {
    cpuMs: (user + system) / 1_000,
    elapsedMs: performance.now(),
    residentBytes: process.memoryUsage.rss(),
  }
}

/** Returns a function for every look: it calls `release` if the process is idle and has grown since the last release. */
export function createIdleWatch(release: () => void, look = lookAtProcess): () => void {
  let last = look()
  let restingBytes = 0
  let pausesUntil = 0
  return () => {
    const now = look()
    const isIdle = now.cpuMs - last.cpuMs < quietShare * (now.elapsedMs - last.elapsedMs)
    last = now
    if (!isIdle) pausesUntil = 0
    if (!isIdle || now.elapsedMs < pausesUntil || now.residentBytes < restingBytes + grownBytes) return
    release()
    pausesUntil = now.elapsedMs + pauseMs
    // Whatever is left is in use: only growth beyond it is worth another release.
    last = look()
    restingBytes = last.residentBytes
  }
}
