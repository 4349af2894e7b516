/** A run from its claim to its end: its id, its start, and the process that does it. */
export type RunMark = {
  readonly id: string
  readonly at: number
  readonly host: string
  readonly pid: number
  readonly since: number
}

/** No delay is longer than a day: a due time or lease beyond this limit comes from a clock that was wrong. */
export const maxDelayMs = 2 * 24 * 60 * 60 * 1_000
