/** The policy of a workspace. The row limits who may enter, so a MAC protects it. */
import type { Policy } from '@coffer/contract/policy'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, forUpdate, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { type AddRows, rowSetStore } from '../row-set.ts'
import { verifiedRows } from '../signed-row.ts'

/** A row with a bad MAC must not open the workspace, so it differs from no row. */
export type StoredPolicy = Policy | 'tampered'

type PolicyFields = { readonly id: string; readonly document: string; readonly updatedAt: number }
type PolicyRow = PolicyFields & RowMac

const columns = fragment(`workspace_id as "id", document, updated_at as "updatedAt", mac, mac_root_id as "macRootId"`)

const macFields = (row: PolicyFields): MacField[] => [row.id, row.document, row.updatedAt]

export function policyStore(db: Db, keys: Keys) {
  const rows = verifiedRows<PolicyFields, PolicyRow>(keys, 'workspace_policy', macFields)
  const sets = rowSetStore(db, keys)
  const table = 'workspace_policy'

  return {
    async find(workspaceId: string, add?: AddRows): Promise<StoredPolicy | undefined> {
      const row = await db.one<PolicyRow>(sql`
        select ${columns} from workspace_policy where workspace_id = ${workspaceId}`)
      if (!row) return undefined
      add?.(table, [row])
      return (await rows.isGenuine(row)) ? JSON.parse(row.document) : 'tampered'
    },

    async save(workspaceId: string, policy: Policy, nowMs: number): Promise<void> {
      const row = { id: workspaceId, document: JSON.stringify(policy), updatedAt: nowMs }
      const { mac, macRootId } = rows.sign(row)
      const current = await db.one<{ mac: Uint8Array }>(sql`
        select mac from workspace_policy where workspace_id = ${workspaceId} ${forUpdate}`)
      db.write(sql`
        insert into workspace_policy (workspace_id, document, updated_at, mac, mac_root_id)
        values (${row.id}, ${row.document}, ${row.updatedAt}, ${mac}, ${macRootId})
        on conflict (workspace_id) do update set document = excluded.document, updated_at = excluded.updated_at,
          mac = excluded.mac, mac_root_id = excluded.mac_root_id`)
      await sets.change([{ workspaceId, table, id: workspaceId, before: current?.mac, after: mac }])
    },

    async remove(workspaceId: string): Promise<void> {
      const removed = await db.one<{ mac: Uint8Array }>(sql`
        delete from workspace_policy where workspace_id = ${workspaceId} returning mac`)
      if (removed) await sets.change([{ workspaceId, table, id: workspaceId, before: removed.mac }])
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<PolicyRow>(sql`
        select ${columns} from workspace_policy where mac_root_id <> ${keys.keyring.active.id}
        order by mac_root_id limit ${limit}`)
      return rows.resign(
        old,
        (row, { mac, macRootId }) =>
          db.count(sql`
          update workspace_policy set mac = ${mac}, mac_root_id = ${macRootId}
          where workspace_id = ${row.id} and mac = ${row.mac}`),
        (moved) => sets.replace(table, moved),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<PolicyRow>(sql`
          select ${columns} from workspace_policy where workspace_id > ${after} order by workspace_id limit 500`),
      ),
  }
}
