/**
 * Moves the store from one master key to another. Nodes that hold the former key follow: the new one is stored under
 * it until the move is finished.
 */
import type { KeyObject } from 'node:crypto'
import { newId } from '../../crypto/id.ts'
import { requireRegistered, sealRegister } from '../../crypto/key-register.ts'
import { isWrappedBy, openHandover, rewrapRootKey, sealHandover, type WrappedRootKey } from '../../crypto/keyring.ts'
import { isFailure } from '../../failure.ts'
import { type Custody, custodyText, readCustody } from '../../master-key/custody.ts'
import { type Db, type Reader, sql } from '../engine/sql.ts'
import { lockRegister, readKeyRows } from './rows.ts'

export type StoredCustody = {
  /** Undefined if the master key has never moved. */
  readonly current: Custody | undefined
  /** Newest first. Their keys still open the store; undefined for a key that had never moved. */
  readonly former: readonly (Custody | undefined)[]
  /** Time of the newest handover. */
  readonly handedOverAt: number | undefined
}

export async function findCustody(db: Reader): Promise<StoredCustody> {
  const row = await db.one<{ custody: string | null }>(sql`select custody from instance where id = 1`)
  const former = await db.all<{ custody: string | null; createdAt: number }>(sql`
    select custody, created_at as "createdAt" from master_handover order by created_at desc, id desc`)
  const read = (text: string | null | undefined) => (text ? readCustody(text) : undefined)
  return {
    current: read(row?.custody),
    former: former.map(({ custody }) => read(custody)),
    handedOverAt: former[0]?.createdAt,
  }
}

/** The key that wraps the roots: the given one, or one that was handed over to its holders. */
export async function followHandover(
  db: Reader,
  given: KeyObject,
  [root]: readonly WrappedRootKey[],
): Promise<KeyObject> {
  if (!root || isWrappedBy(root, given)) return given
  const rows = await db.all<{ id: string; sealed: Uint8Array }>(sql`
    select id, sealed from master_handover order by created_at, id`)
  let master = given
  // Each pass follows at least one more handover, whatever the clocks of the machines said.
  for (let pass = 0; pass < rows.length; pass++) {
    for (const { id, sealed } of rows) {
      master = tryOpen(master, id, sealed) ?? master
      if (isWrappedBy(root, master)) return master
    }
  }
  // The caller's own check says what is wrong.
  return given
}

function tryOpen(master: KeyObject, id: string, sealed: Uint8Array): KeyObject | undefined {
  try {
    return openHandover(master, id, sealed)
  } catch (error) {
    if (isFailure(error, 'integrity')) return undefined
    throw error
  }
}

export type NewMaster = {
  readonly key: KeyObject
  readonly custody: Custody
  /** The key as a key service has wrapped it. */
  readonly wrapped: string | undefined
}

/** Call in a transaction: afterwards everything is under the new key, and holders of the former one can follow. */
export async function handOver(db: Db, given: KeyObject, next: NewMaster, nowMs: number): Promise<void> {
  await lockRegister(db)
  const rows = await readKeyRows(db)
  const former = await followHandover(db, given, rows.roots)
  const level = requireRegistered(former, rows, rows.register)
  for (const root of rows.roots) {
    db.write(sql`update root_key set wrapped = ${rewrapRootKey(root, former, next.key)} where id = ${root.id}`)
  }
  const id = newId()
  db.write(sql`
    insert into master_handover (id, custody, wrapped, sealed, created_at)
    select ${id}, custody, wrapped_master, ${sealHandover(former, id, next.key)}, ${nowMs} from instance where id = 1`)
  const register = sealRegister(next.key, await readKeyRows(db), level)
  db.write(sql`
    update instance set key_register = ${register}, wrapped_master = ${next.wrapped ?? null},
      custody = ${custodyText(next.custody)} where id = 1`)
}

/** Afterwards the former keys open nothing. Returns how many there were. */
export function removeHandovers(db: Db): Promise<number> {
  return db.count(sql`delete from master_handover`)
}
