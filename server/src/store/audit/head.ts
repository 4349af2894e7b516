/** Storage of the heads of audit chains. The row of a head is the lock under which a workspace is written. */
import { anyOf, type Db, forUpdate, fragment, type Sql, sql } from '../engine/sql.ts'
import { emptyHash } from './entry.ts'

export type SignedHead = {
  readonly sequence: number
  readonly hash: string
  readonly signature: Uint8Array | null
  readonly keyId: string | null
}
export type AuditHead = SignedHead & {
  /** Entries up to here were removed. Unsigned: it only tells which cached key lists may be gone. */
  readonly cutSequence: number
}

export type LockedHead = AuditHead & { readonly chainId: string }

const headColumns = fragment(`sequence, hash, signature, key_id as "keyId", cut_sequence as "cutSequence"`)

/** Locks the heads in the order of their ids, so that two transactions cannot wait for each other. */
export const headRows = (chains: readonly string[]): Sql =>
  sql`select chain_id as "chainId", ${headColumns} from audit_head where chain_id ${anyOf(chains)} order by chain_id ${forUpdate}`

export function headStore(db: Db) {
  return {
    /** Locks the chain, so that transactions append one after another. */
    async lockHead(chainId: string): Promise<AuditHead> {
      const head = await db.one<AuditHead>(sql`
        select ${headColumns} from audit_head where chain_id = ${chainId} ${forUpdate}`)
      if (head) return head
      db.write(sql`
        insert into audit_head (chain_id, sequence, hash) values (${chainId}, 0, ${emptyHash}) on conflict do nothing`)
      const created = await db.one<AuditHead>(sql`
        select ${headColumns} from audit_head where chain_id = ${chainId} ${forUpdate}`)
      return created ?? { sequence: 0, hash: emptyHash, signature: null, keyId: null, cutSequence: 0 }
    },

    async findHead(chainId: string): Promise<AuditHead | undefined> {
      return db.one<AuditHead>(sql`select ${headColumns} from audit_head where chain_id = ${chainId}`)
    },

    saveHead(chainId: string, head: SignedHead): void {
      db.write(sql`
        update audit_head set sequence = ${head.sequence}, hash = ${head.hash}, signature = ${head.signature},
          key_id = ${head.keyId}
        where chain_id = ${chainId}`)
    },
  }
}
