/** Decides where to wait for the disk: a fast disk is synced on the event loop, a slow one off it. */

/** Handing a sync to another thread and back costs about this much on an idle machine, and far more on a busy one. */
const quickMs = 0.5
/** How long a disk counts as slow before it is tried on the event loop again. */
const againAfterMs = 1_000
/**
 * Moving average over about 32 syncs. One sync counts at most as four times the threshold, so that a single outlier
 * hardly changes the average of a fast disk, while several in a row do.
 */
const usualOver = 32
const maxWeight = 4

type DiskPace = {
  isQuick(nowMs: number): boolean
  /** Records the duration of a sync that ran on the event loop. */
  note(startedAt: number, endedAt: number): void
}

export function createDiskPace(quickEnoughMs = quickMs): DiskPace {
  let usualMs = 0
  let slowUntil = 0
  return {
    isQuick: (nowMs) => nowMs >= slowUntil,
    note(startedAt, endedAt) {
      usualMs += (Math.min(endedAt - startedAt, maxWeight * quickEnoughMs) - usualMs) / usualOver
      if (usualMs >= quickEnoughMs) slowUntil = endedAt + againAfterMs
    },
  }
}
