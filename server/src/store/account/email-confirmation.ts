/** Mailed links that confirm an address, at most one per person. Found by the keyed hash of their token. */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

export type EmailConfirmation = {
  readonly id: string
  readonly userId: string
  readonly email: string
  readonly createdAt: number
  readonly expiresAt: number
}
type ConfirmationRow = EmailConfirmation & RowMac & { readonly hash: Uint8Array }
type ConfirmationFields = Omit<ConfirmationRow, keyof RowMac>

const columns = fragment(`
  id, user_id as "userId", email, hash, created_at as "createdAt", expires_at as "expiresAt", mac,
  mac_root_id as "macRootId"`)

const macFields = (row: ConfirmationFields): MacField[] => [
  row.id,
  row.userId,
  row.email,
  row.hash,
  row.createdAt,
  row.expiresAt,
]

export function emailConfirmationStore(db: Db, keys: Keys) {
  const rows = verifiedRows<ConfirmationFields, ConfirmationRow>(keys, 'email_confirmation', macFields)

  return {
    /** Invalidates the person's previous link, if any. */
    replace(confirmation: EmailConfirmation, value: string): void {
      const { id, userId, email, createdAt, expiresAt } = confirmation
      const root = keys.keyring.active
      const hash = hashBearer(root, value)
      const { mac, macRootId } = rows.sign({ ...confirmation, hash })
      db.write(sql`delete from email_confirmation where user_id = ${userId}`)
      db.write(sql`
        insert into email_confirmation (id, user_id, email, hash, hash_root_id, created_at, expires_at, mac, mac_root_id)
        values (${id}, ${userId}, ${email}, ${hash}, ${root.id}, ${createdAt}, ${expiresAt}, ${mac}, ${macRootId})`)
    },

    async findByValue(value: string, userId: string): Promise<EmailConfirmation | undefined> {
      for (const root of keys.keyring.all) {
        const hash = hashBearer(root, value)
        const row = await db.one<ConfirmationRow>(sql`
          select ${columns} from email_confirmation where hash = ${hash} and user_id = ${userId}`)
        if (row && (await rows.isGenuine(row))) return row
      }
      return undefined
    },

    /** True for exactly one of several concurrent callers. */
    async take({ id, userId }: EmailConfirmation): Promise<boolean> {
      return (await db.count(sql`delete from email_confirmation where id = ${id} and user_id = ${userId}`)) === 1
    },

    removeOf(userId: string): void {
      db.write(sql`delete from email_confirmation where user_id = ${userId}`)
    },

    async removeExpired(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from email_confirmation
        where id in (select id from email_confirmation where expires_at <= ${nowMs} limit ${limit})`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<ConfirmationRow>(sql`
        select ${columns} from email_confirmation where mac_root_id <> ${keys.keyring.active.id}
        order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.count(sql`
          update email_confirmation set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<ConfirmationRow>(
          sql`select ${columns} from email_confirmation where id > ${after} order by id limit 500`,
        ),
      ),
  }
}
