/** The one row of the installation itself: the lock of its first start, and a master key that a KMS has wrapped. */
import { randomBytes } from 'node:crypto'
import type { WrappedMaster } from '../master-key.ts'
import { type Engine, sql } from './engine/sql.ts'

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

/** Where less is left, what people ask for finds no room either. */
const roomBytes = 64 * 1024

/** A durable write that leaves nothing behind: rejects where the store takes none. Text that is random is not made smaller. */
export async function tryWrite(engine: Engine, nowMs: number): Promise<void> {
  const ballast = randomBytes(roomBytes).toString('base64')
  await engine.transaction('instance', async ({ db }) => {
    await db.run(sql`insert into instance (id, created_at, wrapped_master) values (2, ${nowMs}, ${ballast})`)
    await db.run(sql`delete from instance where id = 2`)
  })
}
