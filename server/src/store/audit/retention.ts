/** Stores how far each audit chain was archived and removed, and does the removal. */

import { type Db, fragment, sql } from '../engine/sql.ts'
import { listSpan } from './key-list.ts'

/** `archive`: entries up to the mark are in an archive file. `cut`: they were removed from the store. */
export type MarkKind = 'archive' | 'cut'

export type AuditMark = {
  readonly sequence: number
  /** Hash of the last entry that the mark covers. */
  readonly hash: string
  readonly at: number
  readonly signature: Uint8Array
  readonly keyId: string
}

const columns = fragment(`sequence, hash, at, signature, key_id as "keyId"`)

export function auditRetentionStore(db: Db) {
  return {
    async findMark(chainId: string, kind: MarkKind): Promise<AuditMark | undefined> {
      return db.one<AuditMark>(sql`select ${columns} from audit_mark where chain_id = ${chainId} and kind = ${kind}`)
    },

    saveMark(chainId: string, kind: MarkKind, mark: AuditMark): void {
      const { sequence, hash, at, signature, keyId } = mark
      db.write(sql`
        insert into audit_mark (chain_id, kind, sequence, hash, at, signature, key_id)
        values (${chainId}, ${kind}, ${sequence}, ${hash}, ${at}, ${signature}, ${keyId})
        on conflict (chain_id, kind) do update set sequence = ${sequence}, hash = ${hash}, at = ${at},
          signature = ${signature}, key_id = ${keyId}`)
    },

    /** Time of the oldest entry that was recorded alone and is in no archive. */
    async findOldestUnarchived(): Promise<number | undefined> {
      const row = await db.one<{ at: number | null }>(sql`
        select min(e.at) as at from audit_entry e
        left join audit_mark a on a.chain_id = e.chain_id and a.kind = 'archive'
        where e.sequence > coalesce(a.sequence, 0)`)
      return row?.at ?? undefined
    },

    /** The next chain by id with archived entries that were not removed yet. */
    async findArchivedAfter(chainId: string): Promise<string | undefined> {
      const row = await db.one<{ chainId: string }>(sql`
        select a.chain_id as "chainId" from audit_mark a
        left join audit_mark c on c.chain_id = a.chain_id and c.kind = 'cut'
        where a.kind = 'archive' and a.chain_id > ${chainId} and a.sequence > coalesce(c.sequence, 0)
        order by a.chain_id limit 1`)
      return row?.chainId
    },

    /**
     * Removes entries up to this sequence, and key lists that no later entry refers to. The chain's head must be
     * locked.
     */
    removeThrough(chainId: string, sequence: number): void {
      db.write(sql`delete from audit_entry where chain_id = ${chainId} and sequence <= ${sequence}`)
      db.write(sql`delete from audit_batch where chain_id = ${chainId} and last_sequence <= ${sequence}`)
      db.write(sql`update audit_head set cut_sequence = ${sequence} where chain_id = ${chainId}`)
      db.write(sql`
        delete from audit_key_list where chain_id = ${chainId} and last_sequence <= ${sequence}
          and not exists (
            select 1 from audit_entry e
            where e.chain_id = ${chainId} and e.sequence > ${sequence}
              and e.sequence < audit_key_list.last_sequence + ${listSpan}
              and e.details like '%' || audit_key_list.digest || '%')
          and not exists (
            select 1 from audit_batch b
            where b.chain_id = ${chainId} and b.last_sequence > ${sequence}
              and b.first_sequence < audit_key_list.last_sequence + ${listSpan}
              and b.last_sequence <= coalesce((
                select min(n.last_sequence) from audit_batch n
                where n.chain_id = ${chainId} and n.last_sequence >= audit_key_list.last_sequence + ${listSpan}),
                audit_key_list.last_sequence + ${listSpan})
              and b.entries like '%' || audit_key_list.digest || '%')`)
    },

    async hasEntriesThrough(chainId: string, sequence: number): Promise<boolean> {
      const row = await db.one(sql`
        select sequence from audit_entry where chain_id = ${chainId} and sequence <= ${sequence}
        union all
        select last_sequence from audit_batch where chain_id = ${chainId} and last_sequence <= ${sequence} limit 1`)
      return row !== undefined
    },
  }
}
