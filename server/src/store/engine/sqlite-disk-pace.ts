/** Where a disk is waited for: on the spot while it is mostly quick, beside the event loop while it is not. */

/** To hand a wait over to another thread and back takes about this long where the cores are free, and far longer else. */
const quickMs = 0.5
/** A slow disk is given another chance after this. */
const againAfterMs = 1_000
/**
 * What is usual is measured over about so many syncs, and one that is slower counts as this many quick ones at most: five
 * or more in a row make a quick disk a slow one, a single one never does.
 */
const usualOver = 32
const maxWeight = 4

type DiskPace = {
  isQuick(nowMs: number): boolean
  /** How long a sync took that was waited for on the spot. */
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
