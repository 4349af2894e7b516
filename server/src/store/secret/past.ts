/** Earlier names, notes and types of secrets, stored as fingerprints that can recognise a text but not reveal it. */
import { createHash } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { type Db, type Reader, sql } from '../engine/sql.ts'

const fields = ['name', 'note', 'type', 'dataType'] as const
export type PastField = (typeof fields)[number]
type Described = Readonly<Record<PastField | 'id', string>>

/** Bound to its secret, so that equal notes of two secrets differ. Unkeyed, because it must outlive every key. */
function fingerprintOf(secretId: string, field: PastField, text: string): string {
  return createHash('sha256')
    .update(lengthPrefixed(['secret-past', secretId, field, text]))
    .digest('base64url')
}

/** Call in the transaction of the change, with the rows as they were before it. */
export async function keepPast(
  db: Db,
  before: readonly Described[],
  after: ReadonlyMap<string, Described>,
): Promise<void> {
  const past = before.flatMap((secret) => {
    const next = after.get(secret.id)
    return fields.flatMap((field) =>
      next && next[field] !== secret[field]
        ? [{ secretId: secret.id, field, fingerprint: fingerprintOf(secret.id, field, secret[field]) }]
        : [],
    )
  })
  db.writeMany(
    past,
    (row) => sql`
    insert into secret_past (secret_id, field, fingerprint) values (${row.secretId}, ${row.field}, ${row.fingerprint})
    on conflict (secret_id, field, fingerprint) do nothing`,
  )
}

export async function hasPast(db: Reader, secretId: string, field: PastField, text: string): Promise<boolean> {
  const fingerprint = fingerprintOf(secretId, field, text)
  const row = await db.one(sql`
    select secret_id from secret_past
    where secret_id = ${secretId} and field = ${field} and fingerprint = ${fingerprint}`)
  return row !== undefined
}
