/** Lifetimes of tokens. The API calls a month `m`; on the command line that is a minute, and a month is `mo`. */
import type { NewToken } from '@coffer/sdk'

type Lifetime = { readonly word: string; readonly days: number; readonly sent: NewToken['expiresIn'] }

const lifetimes: readonly Lifetime[] = [
  { word: '24h', days: 1, sent: '24h' },
  { word: '5d', days: 5, sent: '5d' },
  { word: '30d', days: 30, sent: '30d' },
  { word: '60d', days: 60, sent: '60d' },
  { word: '3mo', days: 91, sent: '3m' },
  { word: '6mo', days: 182, sent: '6m' },
  { word: '1y', days: 365, sent: '1y' },
  { word: 'never', days: Number.POSITIVE_INFINITY, sent: 'never' },
]
const fallback: Lifetime = { word: '30d', days: 30, sent: '30d' }

export const lifetimeWords: readonly string[] = lifetimes.map(({ word }) => word)

export const findLifetime = (given: string | undefined): Lifetime =>
  lifetimes.find(({ word }) => word === given) ?? fallback

/** The longest lifetime of at most this many days. */
export const lifetimeWithin = (days: number): string | undefined =>
  lifetimes.findLast((lifetime) => lifetime.days <= days)?.word

const unitDays = { s: 1 / 86_400, m: 1 / 1_440, h: 1 / 24, d: 1, w: 7, mo: 91 / 3, y: 365 } as const

/** The lifetime to propose for another duration. */
export function nearestLifetime(text: string): string | undefined {
  // The words of earlier versions.
  if (text === '3m' || text === '6m') return `${text}o`
  const [, amount, unit] = /^(\d{1,9})(s|m|h|d|w|mo|y)$/.exec(text) ?? []
  if (unit === undefined) return undefined
  // One of the units, as the pattern says.
  const days = Number(amount) * unitDays[unit as keyof typeof unitDays]
  const distance = (lifetime: Lifetime) => Math.abs(lifetime.days - days)
  return lifetimes.reduce((best, next) => (distance(next) < distance(best) ? next : best)).word
}
