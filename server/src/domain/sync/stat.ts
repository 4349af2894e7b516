/** Counts of this process about syncs, for the metrics. */
export type SyncStats = {
  readonly runs: { succeeded: number; partial: number; failed: number; interrupted: number }
  calls: number
  /** Answers that said: too many requests. */
  throttled: number
}

export const createSyncStats = (): SyncStats => ({
  runs: { succeeded: 0, partial: 0, failed: 0, interrupted: 0 },
  calls: 0,
  throttled: 0,
})
