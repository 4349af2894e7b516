/**
 * Counts failed guesses. Each attempt is counted before it is checked, so that parallel attempts count too. The subject
 * is the thing guessed at: the login of an email address, a second factor, a device code.
 */
import { createHmac } from 'node:crypto'
import { type Db, skipLocked, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'

const maxSubjects = 10_000
/** Trimmed in bulk: sorting all subjects for each new one would cost more than counting it. */
const trimmedAtOnce = 1_000

export function loginAttemptStore(db: Db, keys: Keys) {
  // Unknown addresses are often typos, or a password in the wrong field, so they are stored only as hashes.
  const hashOf = (subject: string) =>
    createHmac('sha256', keys.keyring.active.token).update(`login-attempt:${subject}`).digest()

  /**
   * Bounds the table, since strangers can make up any number of subjects. Subjects with the fewest failures go first,
   * so that locked ones stay locked.
   */
  async function trim(sinceMs: number): Promise<void> {
    const row = await db.one<{ count: number }>(sql`
      select count(*) as count from login_attempt where window_started_at >= ${sinceMs}`)
    if ((row?.count ?? 0) <= maxSubjects + trimmedAtOnce) return
    db.write(sql`
      delete from login_attempt where address_hash in (
        select address_hash from login_attempt where window_started_at >= ${sinceMs}
        order by failures, window_started_at limit ${trimmedAtOnce} ${skipLocked})`)
  }

  return {
    /** Counts this attempt and returns the failures including it, in a window that starts with the first failure. */
    async count(
      subject: string,
      nowMs: number,
      windowMs: number,
    ): Promise<{ failures: number; windowStartedAt: number }> {
      // A window that starts in the far future comes from a clock that was wrong. Clocks of nodes differ by less than a
      // window.
      const [first, last] = [nowMs - windowMs + 1, nowMs + windowMs]
      const row = await db.one<{ failures: number; windowStartedAt: number }>(sql`
        insert into login_attempt (address_hash, window_started_at, failures) values (${hashOf(subject)}, ${nowMs}, 1)
        on conflict (address_hash) do update set
          failures = case when login_attempt.window_started_at between ${first} and ${last}
            then login_attempt.failures + 1 else 1 end,
          window_started_at = case when login_attempt.window_started_at between ${first} and ${last}
            then login_attempt.window_started_at else ${nowMs} end
        returning failures, window_started_at as "windowStartedAt"`)
      if (row?.failures === 1) await trim(first)
      return row ?? { failures: 1, windowStartedAt: nowMs }
    },

    uncount(subject: string): void {
      db.write(sql`
        update login_attempt set failures = failures - 1 where address_hash = ${hashOf(subject)} and failures > 0`)
      db.write(sql`delete from login_attempt where address_hash = ${hashOf(subject)} and failures = 0`)
    },

    forget(subject: string): void {
      db.write(sql`delete from login_attempt where address_hash = ${hashOf(subject)}`)
    },

    async removeBefore(beforeMs: number): Promise<number> {
      return db.count(sql`delete from login_attempt where window_started_at <= ${beforeMs}`)
    },
  }
}
