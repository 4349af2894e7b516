/** The row of the installation itself: a lock for the first start, and the master key if a KMS wraps it. */
import { hash, randomBytes } from 'node:crypto'
import type { WrappedMaster } from '../master-key/master-key.ts'
import { type Engine, sql } from './engine/sql.ts'

export function wrappedMaster(engine: Engine, now: () => number): WrappedMaster {
  return {
    list: async () => {
      const rows = await engine.all<{ wrapped: string }>(sql`
        select wrapped from (
          select wrapped_master as wrapped, 0 as age, created_at from instance where id = 1
          union all select wrapped, 1, created_at from master_handover) as kept
        where wrapped is not null order by age, created_at desc`)
      return rows.map(({ wrapped }) => wrapped)
    },
    saveIfAbsent: (wrapped) =>
      engine.transaction('instance', async ({ db }) => {
        db.write(sql`insert into instance (id, created_at) values (1, ${now()}) on conflict (id) do nothing`)
        const row = await db.one<{ wrapped: string }>(sql`
          update instance set wrapped_master = coalesce(wrapped_master, ${wrapped}) where id = 1
          returning wrapped_master as wrapped`)
        return row?.wrapped ?? wrapped
      }),
  }
}

/** With less space than this, normal requests would fail too. */
const roomBytes = 64 * 1024

/**
 * Tests a durable write without leaving data behind; rejects if the store refuses it. The data is random so that it
 * cannot be compressed.
 */
export async function tryWrite(engine: Engine, nowMs: number): Promise<void> {
  const ballast = randomBytes(roomBytes).toString('base64')
  await engine.transaction('instance', async ({ db }) => {
    db.write(sql`insert into instance (id, created_at, wrapped_master) values (2, ${nowMs}, ${ballast})`)
    db.write(sql`delete from instance where id = 2`)
  })
}

/**
 * Tells stores apart, for programs on the same machine. It is the same on every node of one store, and holds no secret.
 * Call it anew each time: rotations of the root key and restores change it.
 */
export async function storeIdentity(engine: Engine): Promise<string> {
  const rows = await engine.all<{ id: string }>(sql`
    select id from root_key union all select cast(applied_at as text) from schema_step where step = 1
    union all select generation from instance where generation is not null order by 1`)
  return hash('sha256', JSON.stringify(rows.map(({ id }) => id)), 'hex').slice(0, 16)
}
