/** The policy of a workspace. The row limits who may enter, so a MAC protects it. */
import type { Policy } from '@coffer/contract/policy'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { verifiedRows } from '../signed-row.ts'

/** A row with a bad MAC must not open the workspace, so it differs from no row. */
export type StoredPolicy = Policy | 'tampered'

type PolicyFields = { readonly id: string; readonly document: string; readonly updatedAt: number }
type PolicyRow = PolicyFields & RowMac

const columns = fragment(`workspace_id as "id", document, updated_at as "updatedAt", mac, mac_root_id as "macRootId"`)

const macFields = (row: PolicyFields): MacField[] => [row.id, row.document, row.updatedAt]

export function policyStore(db: Db, keys: Keys) {
  const rows = verifiedRows<PolicyFields, PolicyRow>(keys, 'workspace_policy', macFields)

  return {
    async find(workspaceId: string): Promise<StoredPolicy | undefined> {
      const row = await db.one<PolicyRow>(sql`
        select ${columns} from workspace_policy where workspace_id = ${workspaceId}`)
      if (!row) return undefined
      return (await rows.isGenuine(row)) ? JSON.parse(row.document) : 'tampered'
    },

    async save(workspaceId: string, policy: Policy, nowMs: number): Promise<void> {
      const row = { id: workspaceId, document: JSON.stringify(policy), updatedAt: nowMs }
      const { mac, macRootId } = rows.sign(row)
      await db.run(sql`
        insert into workspace_policy (workspace_id, document, updated_at, mac, mac_root_id)
        values (${row.id}, ${row.document}, ${row.updatedAt}, ${mac}, ${macRootId})
        on conflict (workspace_id) do update set document = excluded.document, updated_at = excluded.updated_at,
          mac = excluded.mac, mac_root_id = excluded.mac_root_id`)
    },

    async remove(workspaceId: string): Promise<void> {
      await db.run(sql`delete from workspace_policy where workspace_id = ${workspaceId}`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<PolicyRow>(sql`
        select ${columns} from workspace_policy where mac_root_id <> ${keys.keyring.active.id}
        order by mac_root_id limit ${limit}`)
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.run(sql`
          update workspace_policy set mac = ${mac}, mac_root_id = ${macRootId}
          where workspace_id = ${row.id} and mac = ${row.mac}`),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<PolicyRow>(sql`
          select ${columns} from workspace_policy where workspace_id > ${after} order by workspace_id limit 500`),
      ),
  }
}
