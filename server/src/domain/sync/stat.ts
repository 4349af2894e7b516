/** Sync counters of this process, for the metrics. */
export type SyncStats = {
  readonly runs: { succeeded: number; partial: number; failed: number; interrupted: number }
  calls: number
  /** Responses with status 429. */
  throttled: number
}

export const createSyncStats = (): SyncStats => ({
  runs: { succeeded: 0, partial: 0, failed: 0, interrupted: 0 },
  calls: 0,
  throttled: 0,
})
