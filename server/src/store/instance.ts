/** The one row of the installation itself: the lock of its first start, and a master key that a KMS has wrapped. */
import type { WrappedMaster } from '../master-key.ts'
import { type Engine, sql } from './sql.ts'

export function wrappedMaster(engine: Engine, now: () => number): WrappedMaster {
  const find = async () => {
    const row = await engine.one<{ wrapped: string | null }>(sql`
      select wrapped_master as wrapped from instance where id = 1`)
    return row?.wrapped ?? undefined
  }
  return {
    find,
    saveIfAbsent: (wrapped) =>
      engine.transaction('instance', async ({ db }) => {
        await db.run(sql`insert into instance (id, created_at) values (1, ${now()}) on conflict (id) do nothing`)
        const row = await db.one<{ wrapped: string }>(sql`
          update instance set wrapped_master = coalesce(wrapped_master, ${wrapped}) where id = 1
          returning wrapped_master as wrapped`)
        return row?.wrapped ?? wrapped
      }),
  }
}
