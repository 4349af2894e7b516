/** What secrets were called and how they were described before: fingerprints that find a text again, and do not tell it. */
import { createHash } from 'node:crypto'
import { lengthPrefixed } from '../crypto/envelope.ts'
import { type Db, sql } from './engine/sql.ts'

const fields = ['name', 'note', 'type', 'dataType'] as const
export type PastField = (typeof fields)[number]
type Described = Readonly<Record<PastField | 'id', string>>

/** Bound to its secret: equal notes of two secrets have different fingerprints. Not keyed, as it must outlive every key. */
function fingerprintOf(secretId: string, field: PastField, text: string): string {
  return createHash('sha256')
    .update(lengthPrefixed(['secret-past', secretId, field, text]))
    .digest('base64url')
}

/** Call in the transaction of the change, with what stands in the rows before it. */
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
  await db.runMany(
    past,
    (row) => sql`
    insert into secret_past (secret_id, field, fingerprint) values (${row.secretId}, ${row.field}, ${row.fingerprint})
    on conflict (secret_id, field, fingerprint) do nothing`,
  )
}

export async function hasPast(db: Db, secretId: string, field: PastField, text: string): Promise<boolean> {
  const fingerprint = fingerprintOf(secretId, field, text)
  const row = await db.one(sql`
    select secret_id from secret_past
    where secret_id = ${secretId} and field = ${field} and fingerprint = ${fingerprint}`)
  return row !== undefined
}
