/** How scheduled backups are doing: for metrics, readiness, `doctor` and the banner of the dashboard. */
import type { BackupRecord } from '../../store/backup.ts'
import type { Services } from '../context.ts'
import { hourMs, secondMs } from '../time.ts'
import { backupTime } from './target/name.ts'

type BackupState = {
  /** Verified, and stored in the target of the settings. Its contents are of `madeAt`: it may be stored by a later run. */
  readonly newest: (BackupRecord & { readonly madeAt: number }) | undefined
  /** Failed runs since then. */
  readonly failures: number
  readonly lastFailureAt: number | undefined
  /** For the operator alone. */
  readonly lastError: string | undefined
  readonly isLate: boolean
}

/** A backup may take its time, and one failed run is repeated soon: late is what has missed a whole turn. */
const lateAfterTurns = 2
const maxFailures = 12
/** A run that began later than this from now was recorded while the clock was wrong, and says nothing. */
export const maxClockErrorMs = hourMs

/** Undefined if no backups are scheduled. */
export async function readBackupState({
  config,
  store,
  now,
}: Pick<Services, 'config' | 'store' | 'now'>): Promise<BackupState | undefined> {
  const { to, name, everyMs } = config.backup
  if (to === undefined) return undefined
  const untilMs = now() + maxClockErrorMs
  const record = await store.backups.newestVerified(name, untilMs)
  const newest = record && { ...record, madeAt: madeAtOf(record) }
  const failed = await store.backups.listFailed(name, { sinceMs: newest?.startedAt ?? 0, untilMs }, maxFailures)
  return {
    newest,
    failures: failed.length,
    lastFailureAt: failed[0]?.finishedAt ?? undefined,
    lastError: failed[0]?.error ?? undefined,
    isLate: newest !== undefined && now() - newest.madeAt > lateAfterTurns * everyMs,
  }
}

/** The name has whole seconds. A time after the run that stored it comes from a clock that was wrong. */
function madeAtOf({ name, startedAt }: BackupRecord): number {
  const namedAt = backupTime(name) ?? startedAt
  return startedAt - namedAt < secondMs ? startedAt : namedAt
}

/** One sentence for anybody: it names neither the target nor the reason of a failure. */
export function describeBackups(state: BackupState, nowMs: number): { readonly ok: boolean; readonly message: string } {
  const { newest, failures, isLate } = state
  const age =
    newest === undefined
      ? 'There is no verified backup yet'
      : `The newest verified backup is ${ageOf(nowMs - newest.madeAt)} old`
  if (failures > 0) return { ok: false, message: `${age}, and the last run failed.` }
  return { ok: !isLate, message: isLate ? `${age}, which is too old.` : `${age}.` }
}

function ageOf(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000))
  if (minutes < 120) return `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} hours` : `${Math.floor(minutes / 1_440)} days`
}
