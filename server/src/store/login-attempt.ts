/**
 * Guesses in vain, counted before they are looked at, so that many at once are counted too. The subject is whatever is
 * guessed at: the login of an email address, the code of a second factor, a code that a device shows.
 */
import { createHmac } from 'node:crypto'
import { type Db, skipLocked, sql } from './engine/sql.ts'
import type { Keys } from './key.ts'

const maxSubjects = 10_000
/** Sorting them for each new one would cost more than counting it. */
const trimmedAtOnce = 1_000

export function loginAttemptStore(db: Db, keys: Keys) {
  // Unknown addresses are often mistyped ones, or a password in the wrong field: they are not kept in the clear.
  const hashOf = (subject: string) =>
    createHmac('sha256', keys.keyring.active.token).update(`login-attempt:${subject}`).digest()

  /** Strangers make up any number of subjects. Those that were guessed at least go first, so that a lock stays. */
  async function trim(sinceMs: number): Promise<void> {
    const row = await db.one<{ count: number }>(sql`
      select count(*) as count from login_attempt where window_started_at >= ${sinceMs}`)
    if ((row?.count ?? 0) <= maxSubjects + trimmedAtOnce) return
    await db.run(sql`
      delete from login_attempt where address_hash in (
        select address_hash from login_attempt where window_started_at >= ${sinceMs}
        order by failures, window_started_at limit ${trimmedAtOnce} ${skipLocked})`)
  }

  return {
    /** Counts this attempt; the number includes it, within a window that starts with the first failure. */
    async count(
      subject: string,
      nowMs: number,
      windowMs: number,
    ): Promise<{ failures: number; windowStartedAt: number }> {
      // What began later was begun by a clock that was wrong and is not any more; those of two nodes differ by less.
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

    async uncount(subject: string): Promise<void> {
      await db.run(sql`
        update login_attempt set failures = failures - 1 where address_hash = ${hashOf(subject)} and failures > 0`)
      await db.run(sql`delete from login_attempt where address_hash = ${hashOf(subject)} and failures = 0`)
    },

    async forget(subject: string): Promise<void> {
      await db.run(sql`delete from login_attempt where address_hash = ${hashOf(subject)}`)
    },

    async removeBefore(beforeMs: number): Promise<number> {
      return db.run(sql`delete from login_attempt where window_started_at <= ${beforeMs}`)
    },
  }
}
