/** Failed logins per address, counted before the password is looked at, so that many at once are counted too. */
import { createHmac } from 'node:crypto'
import type { Keys } from './key.ts'
import { type Db, sql } from './sql.ts'

export function loginAttemptStore(db: Db, keys: Keys) {
  // Unknown addresses are often mistyped ones, or a password in the wrong field: they are not kept in the clear.
  const hashOf = (email: string) =>
    createHmac('sha256', keys.keyring.active.token).update(`login-attempt:${email}`).digest()

  return {
    /** Counts this attempt; the number includes it, within a window that starts with the first failure. */
    async count(
      email: string,
      nowMs: number,
      windowMs: number,
    ): Promise<{ failures: number; windowStartedAt: number }> {
      const row = await db.one<{ failures: number; windowStartedAt: number }>(sql`
        insert into login_attempt (address_hash, window_started_at, failures) values (${hashOf(email)}, ${nowMs}, 1)
        on conflict (address_hash) do update set
          failures = case when login_attempt.window_started_at <= ${nowMs - windowMs} then 1
            else login_attempt.failures + 1 end,
          window_started_at = case when login_attempt.window_started_at <= ${nowMs - windowMs} then ${nowMs}
            else login_attempt.window_started_at end
        returning failures, window_started_at as "windowStartedAt"`)
      return row ?? { failures: 1, windowStartedAt: nowMs }
    },

    async uncount(email: string): Promise<void> {
      await db.run(sql`
        update login_attempt set failures = failures - 1 where address_hash = ${hashOf(email)} and failures > 0`)
    },

    async forget(email: string): Promise<void> {
      await db.run(sql`delete from login_attempt where address_hash = ${hashOf(email)}`)
    },

    async removeBefore(beforeMs: number): Promise<number> {
      return db.run(sql`delete from login_attempt where window_started_at <= ${beforeMs}`)
    },
  }
}
