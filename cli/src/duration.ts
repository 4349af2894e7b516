/** Durations such as `30s`, `10m`, `24h` and `30d`. */
import { usageError } from './error.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** In milliseconds. `flag` is named in the error. */
export function parseDuration(text: string, flag: string): number {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? []
  if (amount === undefined || unit === undefined) {
    throw usageError(`${flag} must be a number with a unit: ms, s, m, h or d.`, `${flag} 30s`)
  }
  return Number(amount) * unitMs[unit as keyof typeof unitMs]
}

/** The largest whole unit, such as `3 min`, for remarks. */
export function describeDuration(durationMs: number): string {
  const seconds = Math.max(0, Math.round(durationMs / 1_000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} days`
}
