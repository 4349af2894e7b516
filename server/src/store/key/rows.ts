/** Rows of root and signing keys, with the sealed register that lists them. */
import type { WrappedRootKey } from '../../crypto/keyring.ts'
import type { WrappedSigningKey } from '../../crypto/signing.ts'
import { type Db, forUpdate, type Reader, sql } from '../engine/sql.ts'

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
export async function readKeyRows(db: Reader): Promise<KeyRows> {
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

/** Serialises nodes that start or rotate at the same time. */
export function lockRegister(db: Db): Promise<unknown> {
  return db.count(sql`select id from instance where id = 1 ${forUpdate}`)
}
