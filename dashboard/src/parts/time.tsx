import { useEffect, useState } from 'react'

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' })

const units = [
  ['year', 365 * 86_400_000],
  ['month', 30 * 86_400_000],
  ['week', 7 * 86_400_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const

export function relativeTime(at: number, now: number): string {
  const distanceMs = at - now
  for (const [unit, sizeMs] of units) {
    if (Math.abs(distanceMs) >= sizeMs) return relative.format(Math.trunc(distanceMs / sizeMs), unit)
  }
  return distanceMs > 0 ? 'in a moment' : 'just now'
}

export const absoluteTime = (at: string) => absolute.format(new Date(at))
export const dayOf = (at: string) => day.format(new Date(at))

const refreshMs = 30_000

/** Relative, with the exact time on hover. */
export function Time({ at }: { readonly at: string }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), refreshMs)
    return () => clearInterval(timer)
  }, [])
  return (
    <time dateTime={at} title={absoluteTime(at)}>
      {relativeTime(Date.parse(at), now)}
    </time>
  )
}
