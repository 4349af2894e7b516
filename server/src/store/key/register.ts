/** Rows of root and signing keys, and the sealed register of the keys in use. */
import type { KeyObject } from 'node:crypto'
import { newId } from '../../crypto/id.ts'
import { requireRegistered, sealRegister } from '../../crypto/key-register.ts'
import { createRootKey, isRegistered, rewrapRegistered, type WrappedRootKey } from '../../crypto/keyring.ts'
import { createSigningKey, type WrappedSigningKey } from '../../crypto/signing.ts'
import { type Db, type Engine, forUpdate, sql } from '../engine/sql.ts'

type RootRow = WrappedRootKey & { readonly isActive: number; readonly createdAt: number }
type SigningRow = WrappedSigningKey & { readonly createdAt: number; readonly retiredAt: number | null }
type KeyRows = {
  /** Active first, then newest first. */
  readonly roots: readonly RootRow[]
  readonly signers: readonly SigningRow[]
  /** Null in a store of an older version until the service has started once. */
  readonly register: Uint8Array | null
}

/** One statement gives one snapshot: the register must match the rows that it lists. */
export async function readKeyRows(db: Db): Promise<KeyRows> {
  type Row = RootRow & SigningRow & { readonly kind: 'root' | 'signing' | 'register' }
  const rows = await db.all<Row>(sql`
    select 'root' as kind, id, wrapped, check_value as "checkValue", is_active as "isActive",
      created_at as "createdAt", null as purpose, null as "rootId", null as "publicKey", null as "retiredAt"
    from root_key
    union all
    select 'signing', id, wrapped, null, null, created_at, purpose, root_id, public_key, retired_at from signing_key
    union all
    select 'register', '', key_register, null, null, created_at, null, null, null, null from instance where id = 1
    order by "createdAt", id`)
  return {
    roots: rows
      .filter(({ kind }) => kind === 'root')
      .toSorted((one, other) => other.isActive - one.isActive || other.createdAt - one.createdAt),
    signers: rows.filter(({ kind }) => kind === 'signing'),
    register: rows.find(({ kind }) => kind === 'register')?.wrapped ?? null,
  }
}

/** At start: creates keys in an empty store, and the register in a store of an older version. */
export async function makeKeys(engine: Engine, master: KeyObject, now: () => number): Promise<void> {
  await engine.transaction('keys', async ({ db }) => {
    await db.run(sql`insert into instance (id, created_at) values (1, ${now()}) on conflict (id) do nothing`)
    await lockRegister(db)
    const { roots, register } = await readKeyRows(db)
    if (roots.length > 0 && register !== null) return
    await changeKeys(db, master, async () => {
      if (roots.length === 0) await createKeys(db, master, now())
    })
  })
}

export async function hasKeys(db: Db): Promise<boolean> {
  return (await db.one(sql`select id from root_key limit 1`)) !== undefined
}

/**
 * Changes key rows inside a transaction and seals a new register. The rows are verified first; otherwise the new
 * register would confirm somebody else's changes.
 */
export async function changeKeys<Result>(db: Db, master: KeyObject, work: () => Promise<Result>): Promise<Result> {
  await lockRegister(db)
  const before = await readKeyRows(db)
  requireRegistered(master, before, before.register)
  const result = await work()
  const after = await readKeyRows(db)
  for (const root of after.roots) {
    if (isRegistered(root)) continue
    await db.run(sql`update root_key set wrapped = ${rewrapRegistered(root, master)} where id = ${root.id}`)
  }
  await db.run(sql`update instance set key_register = ${sealRegister(master, after)} where id = 1`)
  return result
}

/** Serialises nodes that start or rotate at the same time. */
function lockRegister(db: Db): Promise<unknown> {
  return db.run(sql`select id from instance where id = 1 ${forUpdate}`)
}

/** Call within `changeKeys`. */
export async function createKeys(db: Db, master: KeyObject, nowMs: number): Promise<string> {
  const { root, wrapped } = createRootKey(newId(), master)
  await insertRootKey(db, wrapped, nowMs)
  await insertSigningKey(db, createSigningKey(newId(), 'jwt', root), nowMs)
  await insertSigningKey(db, createSigningKey(newId(), 'audit', root), nowMs)
  return root.id
}

async function insertRootKey(db: Db, key: WrappedRootKey, nowMs: number): Promise<void> {
  await db.run(sql`update root_key set is_active = 0 where is_active = 1`)
  await db.run(sql`
    insert into root_key (id, wrapped, check_value, is_active, created_at)
    values (${key.id}, ${key.wrapped}, ${key.checkValue}, 1, ${nowMs})`)
}

async function insertSigningKey(db: Db, key: WrappedSigningKey, nowMs: number): Promise<void> {
  await db.run(sql`
    update signing_key set retired_at = ${nowMs} where purpose = ${key.purpose} and retired_at is null`)
  await db.run(sql`
    insert into signing_key (id, purpose, root_id, public_key, wrapped, created_at)
    values (${key.id}, ${key.purpose}, ${key.rootId}, ${key.publicKey}, ${key.wrapped}, ${nowMs})`)
}
