/** Durations such as `30s`, `10m`, `24h` and `30d`. Every flag reads them here: `m` is always minutes. */
import { usageError } from './error.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

type Limits = {
  /** Used if the flag is not given. */
  readonly unset: string
  readonly range?: readonly [least: string, most: string]
  /** Proposed for a text that is no duration; `unset` by default. */
  readonly example?: string
}

/** In milliseconds. Errors name the flag, and propose a duration that it accepts. */
export function readDuration(given: string | undefined, flag: string, limits: Limits): number {
  const { unset, range, example = unset } = limits
  const durationMs = parse(given ?? unset)
  if (durationMs === undefined) {
    throw usageError(`${flag} must be a number with a unit: ms, s, m, h or d.`, `${flag} ${example}`)
  }
  if (!range) return durationMs
  const [least, most] = range
  const isShort = durationMs < (parse(least) ?? 0)
  if (!isShort && durationMs <= (parse(most) ?? 0)) return durationMs
  throw usageError(`${flag} is between ${least} and ${most}.`, `${flag} ${isShort ? least : most}`)
}

function parse(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? []
  // One of the units, as the pattern says.
  return unit === undefined ? undefined : Number(amount) * unitMs[unit as keyof typeof unitMs]
}

/** The largest whole unit, such as `3 min`, for remarks. */
export function describeDuration(durationMs: number): string {
  const seconds = Math.max(0, Math.round(durationMs / 1_000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} days`
}
