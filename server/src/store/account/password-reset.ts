/**
 * Links of the operator that set a new password, at most one per person. Found by the keyed hash of their token. They
 * live for minutes, so a rotation of the root key waits for them instead of signing them again.
 */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

export type PasswordReset = { readonly id: string; readonly userId: string; readonly expiresAt: number }
type ResetFields = PasswordReset & { readonly hash: Uint8Array }
type ResetRow = ResetFields & RowMac

const columns = fragment(`id, user_id as "userId", hash, expires_at as "expiresAt", mac, mac_root_id as "macRootId"`)

const macFields = (row: ResetFields): MacField[] => [row.id, row.userId, row.hash, row.expiresAt]

export function passwordResetStore(db: Db, keys: Keys) {
  const rows = verifiedRows<ResetFields, ResetRow>(keys, 'password_reset', macFields)

  const removeOf = (userId: string) => db.write(sql`delete from password_reset where user_id = ${userId}`)

  return {
    removeOf,

    /** Invalidates the person's previous link, if any. */
    replace({ id, userId, expiresAt }: PasswordReset, value: string): void {
      const hash = hashBearer(keys.keyring.active, value)
      const { mac, macRootId } = rows.sign({ id, userId, hash, expiresAt })
      removeOf(userId)
      db.write(sql`
        insert into password_reset (id, user_id, hash, expires_at, mac, mac_root_id)
        values (${id}, ${userId}, ${hash}, ${expiresAt}, ${mac}, ${macRootId})`)
    },

    async findByValue(value: string): Promise<PasswordReset | undefined> {
      for (const root of keys.keyring.all) {
        const hash = hashBearer(root, value)
        const row = await db.one<ResetRow>(sql`select ${columns} from password_reset where hash = ${hash}`)
        if (row && (await rows.isGenuine(row))) return row
      }
      return undefined
    },

    /** True for exactly one of several concurrent callers. */
    async take({ id, userId }: PasswordReset): Promise<boolean> {
      return (await db.count(sql`delete from password_reset where id = ${id} and user_id = ${userId}`)) === 1
    },

    async removeExpired(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from password_reset
        where id in (select id from password_reset where expires_at <= ${nowMs} limit ${limit})`)
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<ResetRow>(sql`select ${columns} from password_reset where id > ${after} order by id limit 500`),
      ),
  }
}
