/**
 * Networks that each email address has logged in from. Only keyed hashes of the pair are stored, so that a database
 * dump reveals neither.
 */
import { createHmac } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import type { RootKey } from '../../crypto/keyring.ts'
import { type Db, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'

export function loginAddressStore(db: Db, keys: Keys) {
  const hashOf = (root: RootKey, email: string, network: string) =>
    createHmac('sha256', root.token)
      .update(lengthPrefixed(['login-address', email, network]))
      .digest()

  return {
    /** Hashes under an older root match as long as that root exists. */
    async isKnown(email: string, network: string): Promise<boolean> {
      for (const root of keys.keyring.all) {
        const hash = hashOf(root, email, network)
        if (await db.one(sql`select last_login_at from login_address where hash = ${hash}`)) return true
      }
      return false
    },

    remember(email: string, network: string, nowMs: number): void {
      db.write(sql`
        insert into login_address (hash, last_login_at)
        values (${hashOf(keys.keyring.active, email, network)}, ${nowMs})
        on conflict (hash) do update set last_login_at = ${nowMs}`)
    },

    async removeBefore(beforeMs: number): Promise<number> {
      return db.count(sql`delete from login_address where last_login_at <= ${beforeMs}`)
    },
  }
}
