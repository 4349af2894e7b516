/** The clock of this node beside that of PostgreSQL. SQLite has no clock of its own. */
import { type Engine, sql } from '../store/engine/sql.ts'

/** Beyond this, nodes disagree noticeably about what has expired. */
export const clockLeewayMs = 30_000

/** How far this node is ahead, or behind if negative; undefined on SQLite. */
export async function readClockOffset(engine: Engine, now: () => number): Promise<number | undefined> {
  if (engine.kind === 'sqlite') return undefined
  return measureClock(async () => {
    const row = await engine.one<{ at: number }>(
      sql`select cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as at`,
    )
    return row?.at ?? 0
  }, now)
}

/** Compares with the middle of the question, and deducts the time of the answer, which is unknown. */
export async function measureClock(ask: () => Promise<number>, now: () => number): Promise<number> {
  const askedAt = now()
  const theirs = await ask()
  const answeredAt = now()
  const offset = (askedAt + answeredAt) / 2 - theirs
  return Math.sign(offset) * Math.max(0, Math.abs(offset) - (answeredAt - askedAt) / 2)
}
