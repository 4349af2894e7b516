/**
 * Ledger of everything a sync has written at its target. Only entries listed here are ever updated or deleted there.
 */
import { anyOf, type Db, sql } from '../engine/sql.ts'

export type LedgerEntry = {
  readonly name: string
  readonly remoteId: string | null
  /** The stored form also contains the MAC of the row itself; see domain/sync/ledger.ts. */
  readonly valueMac: string
  readonly mark: string | null
  readonly origin: 'created' | 'adopted'
  /**
   * `pending`: a call was started and its outcome is unknown. `new`: the same, and it is the first call for this name.
   */
  readonly status: 'new' | 'pending' | 'synced'
  readonly updatedAt: number
}

/** A name at a target and the sync that wrote it. */
export type OthersEntry = {
  readonly name: string
  readonly syncName: string
  readonly workspaceId: string
  readonly projectId: string
  readonly environmentId: string | null
}

export function syncLedgerStore(db: Db) {
  return {
    async list(syncId: string): Promise<LedgerEntry[]> {
      return db.all<LedgerEntry>(sql`
        select name, remote_id as "remoteId", value_mac as "valueMac", mark, origin, status, updated_at as "updatedAt"
        from sync_ledger where sync_id = ${syncId} order by name`)
    },

    put(syncId: string, entries: readonly LedgerEntry[]): void {
      db.writeMany(
        entries,
        (entry) => sql`
          insert into sync_ledger (sync_id, name, remote_id, value_mac, mark, origin, status, updated_at)
          values (${syncId}, ${entry.name}, ${entry.remoteId}, ${entry.valueMac}, ${entry.mark}, ${entry.origin},
            ${entry.status}, ${entry.updatedAt})
          on conflict (sync_id, name) do update set remote_id = excluded.remote_id, value_mac = excluded.value_mac,
            mark = excluded.mark, origin = excluded.origin, status = excluded.status, updated_at = excluded.updated_at`,
      )
    },

    remove(syncId: string, names: readonly string[]): void {
      if (names.length === 0) return
      db.write(sql`delete from sync_ledger where sync_id = ${syncId} and name ${anyOf(names)}`)
    },

    clear(syncId: string): void {
      db.write(sql`delete from sync_ledger where sync_id = ${syncId}`)
    },

    /** Entries of other syncs, in any workspace, at the same target. */
    async listOthers(syncId: string, placeHash: string): Promise<OthersEntry[]> {
      return db.all<OthersEntry>(sql`
        select l.name, s.name as "syncName", s.workspace_id as "workspaceId", s.project_id as "projectId",
          s.environment_id as "environmentId"
        from sync s join sync_ledger l on l.sync_id = s.id
        where s.place_hash = ${placeHash} and s.id <> ${syncId}`)
    },
  }
}
