/** Creates and changes root and signing keys, and seals the register of the keys in use. */
import type { KeyObject } from 'node:crypto'
import { newId } from '../../crypto/id.ts'
import { requireRegistered, sealRegister } from '../../crypto/key-register.ts'
import { createRootKey, isRegistered, rewrapRegistered, type WrappedRootKey } from '../../crypto/keyring.ts'
import { createSigningKey, type WrappedSigningKey } from '../../crypto/signing.ts'
import { type Db, type Engine, type Reader, sql } from '../engine/sql.ts'
import { newestLevel } from '../upgrade-switch.ts'
import { followHandover } from './custody.ts'
import { lockRegister, readKeyRows } from './rows.ts'

/** At start: creates keys in an empty store, and the register in a store of an older version. */
export async function makeKeys(engine: Engine, master: KeyObject, now: () => number): Promise<void> {
  await engine.transaction('keys', async ({ db }) => {
    db.write(sql`insert into instance (id, created_at) values (1, ${now()}) on conflict (id) do nothing`)
    await lockRegister(db)
    const { roots, register } = await readKeyRows(db)
    if (roots.length > 0 && register !== null) return
    const isNew = roots.length === 0
    const create = async () => void (isNew && (await createKeys(db, master, now())))
    // No node of an earlier version has ever served a new store.
    await changeKeys(db, master, create, isNew ? newestLevel : undefined)
  })
}

export async function hasKeys(db: Reader): Promise<boolean> {
  return (await db.one(sql`select id from root_key limit 1`)) !== undefined
}

/**
 * Changes key rows inside a transaction and seals a new register. The rows are verified first; otherwise the new
 * register would confirm somebody else's changes. The store keeps its level unless a new one is given.
 */
export async function changeKeys<Result>(
  db: Db,
  given: KeyObject,
  work: (master: KeyObject) => Promise<Result>,
  newLevel?: number,
): Promise<Result> {
  await lockRegister(db)
  const before = await readKeyRows(db)
  // The master key may have moved since this process read it.
  const master = await followHandover(db, given, before.roots)
  const level = requireRegistered(master, before, before.register)
  const result = await work(master)
  const after = await readKeyRows(db)
  for (const root of after.roots) {
    if (isRegistered(root)) continue
    db.write(sql`update root_key set wrapped = ${rewrapRegistered(root, master)} where id = ${root.id}`)
  }
  db.write(sql`update instance set key_register = ${sealRegister(master, after, newLevel ?? level)} where id = 1`)
  return result
}

/** Call within `changeKeys`. */
export async function createKeys(db: Db, master: KeyObject, nowMs: number): Promise<string> {
  const { root, wrapped } = createRootKey(newId(), master)
  insertRootKey(db, wrapped, nowMs)
  insertSigningKey(db, createSigningKey(newId(), 'jwt', root), nowMs)
  insertSigningKey(db, createSigningKey(newId(), 'audit', root), nowMs)
  return root.id
}

function insertRootKey(db: Db, key: WrappedRootKey, nowMs: number): void {
  db.write(sql`update root_key set is_active = 0 where is_active = 1`)
  db.write(sql`
    insert into root_key (id, wrapped, check_value, is_active, created_at)
    values (${key.id}, ${key.wrapped}, ${key.checkValue}, 1, ${nowMs})`)
}

function insertSigningKey(db: Db, key: WrappedSigningKey, nowMs: number): void {
  db.write(sql`
    update signing_key set retired_at = ${nowMs} where purpose = ${key.purpose} and retired_at is null`)
  db.write(sql`
    insert into signing_key (id, purpose, root_id, public_key, wrapped, created_at)
    values (${key.id}, ${key.purpose}, ${key.rootId}, ${key.publicKey}, ${key.wrapped}, ${nowMs})`)
}
