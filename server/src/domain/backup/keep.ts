/**
 * Decides which backups are removed. Days, weeks (from Monday) and months are those of UTC, so a change of the clock
 * for the summer moves nothing. Of each of them the newest verified backup is kept.
 */
import type { KeepRule } from '../../backup-setting.ts'
import { maxClockErrorMs } from './state.ts'

export type KnownBackup = { readonly name: string; readonly at: number; readonly isVerified: boolean }

const dayMs = 86_400_000
/** The first of January 1970 was a Thursday. */
const daysFromMondayToEpoch = 3

const periods: Readonly<Record<keyof KeepRule, (at: number) => number>> = {
  daily: (at) => Math.floor(at / dayMs),
  weekly: (at) => Math.floor((Math.floor(at / dayMs) + daysFromMondayToEpoch) / 7),
  monthly: (at) => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth(),
}

/** Names of the backups to remove, the oldest first. */
export function listExpired(backups: readonly KnownBackup[], rule: KeepRule, nowMs: number): string[] {
  // Those of a clock that was ahead wait for their time: if they counted, each new one would be an old one.
  const past = backups.filter(({ at }) => at <= nowMs + maxClockErrorMs)
  const newestFirst = past.toSorted((one, other) => other.at - one.at || (one.name < other.name ? 1 : -1))
  const verified = newestFirst.filter(({ isVerified }) => isVerified)
  const newest = verified[0]
  // Without a verified one, any of the others may be the only one that can be restored.
  if (newest === undefined) return []
  const kept = new Set([newest.name, ...keptBy(verified, rule)])
  // An unverified one that is newer is perhaps being verified right now.
  const isPending = ({ isVerified, at }: KnownBackup) => !isVerified && at >= newest.at
  return newestFirst
    .filter((backup) => !kept.has(backup.name) && !isPending(backup))
    .map(({ name }) => name)
    .reverse()
}

function keptBy(newestFirst: readonly KnownBackup[], rule: KeepRule): string[] {
  return Object.entries(periods).flatMap(([kind, periodOf]) => {
    const count = kind === 'daily' ? rule.daily : kind === 'weekly' ? rule.weekly : rule.monthly
    const newestOf = new Map<number, string>()
    for (const { at, name } of newestFirst) {
      const period = periodOf(at)
      if (!newestOf.has(period) && newestOf.size < count) newestOf.set(period, name)
    }
    return [...newestOf.values()]
  })
}
