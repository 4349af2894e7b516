/** Identities vouched for by external issuers. The row grants rights, so a MAC protects it. */
import type { Permission, Scope } from '@coffer/contract/field'
import type { ClaimRules } from '@coffer/contract/oidc'
import type { MacField, RowMac } from '../crypto/row-mac.ts'
import { anyOf, type Db, forUpdate, fragment, skipLocked, sql } from './engine/sql.ts'
import type { Keys } from './key/key.ts'
import { rowSetStore } from './row-set.ts'
import { verifiedRows } from './signed-row.ts'

export type IdentityRecord = {
  readonly id: string
  readonly workspaceId: string
  readonly name: string
  readonly issuer: string
  readonly audience: string
  readonly subject: string | null
  readonly claims: ClaimRules
  readonly permission: Permission
  readonly scope: Scope
  readonly enabled: boolean
  /** JWTs issued under an earlier generation are invalid. */
  readonly generation: number
  /** Null for an identity from before this was recorded. Grants nothing, so no MAC covers it. */
  readonly createdBy: string | null
  readonly createdAt: number
  readonly updatedAt: number
  readonly lastUsedAt: number | null
}
type IdentityRow = Omit<IdentityRecord, 'claims' | 'scope' | 'enabled'> &
  RowMac & { readonly claims: string; readonly scope: string; readonly isEnabled: number }

const columns = fragment(`
  id, workspace_id as "workspaceId", name, issuer, audience, subject, claims, permission, scope,
  is_enabled as "isEnabled", generation, created_by as "createdBy", created_at as "createdAt", updated_at as "updatedAt",
  last_used_at as "lastUsedAt", mac, mac_root_id as "macRootId"`)

type IdentityFields = Omit<IdentityRow, keyof RowMac>

const macFields = (row: IdentityFields): MacField[] => [
  row.id,
  row.workspaceId,
  row.issuer,
  row.audience,
  row.subject,
  row.claims,
  row.permission,
  row.scope,
  row.isEnabled,
  row.generation,
  row.createdAt,
]

export function oidcStore(db: Db, keys: Keys) {
  const rows = verifiedRows<IdentityFields, IdentityRow>(keys, 'oidc_identity', macFields)
  const sets = rowSetStore(db, keys)
  const table = 'oidc_identity'

  function toRow({ enabled, ...identity }: IdentityRecord): IdentityRow {
    const [claims, scope] = [JSON.stringify(identity.claims), JSON.stringify(identity.scope)]
    const row = { ...identity, claims, scope, isEnabled: enabled ? 1 : 0 }
    return { ...row, ...rows.sign(row) }
  }

  async function genuine(row: IdentityRow | undefined): Promise<IdentityRecord | undefined> {
    if (!row || !(await rows.isGenuine(row))) return undefined
    const { mac: _mac, macRootId: _root, isEnabled, ...identity } = row
    return { ...identity, enabled: isEnabled === 1, claims: JSON.parse(row.claims), scope: JSON.parse(row.scope) }
  }

  /** Rows with a bad MAC grant nothing and are skipped. */
  async function genuineOnly(stored: readonly IdentityRow[]): Promise<IdentityRecord[]> {
    const identities: IdentityRecord[] = []
    for (const row of stored) {
      const identity = await genuine(row)
      if (identity) identities.push(identity)
    }
    return identities
  }

  return {
    async find(id: string, workspaceId: string): Promise<IdentityRecord | undefined> {
      return genuine(
        await db.one<IdentityRow>(sql`
          select ${columns} from oidc_identity where id = ${id} and workspace_id = ${workspaceId}`),
      )
    },

    /** Locks the row until the commit, so that it cannot change between the check and the write. */
    async findForChange(id: string, workspaceId: string): Promise<IdentityRecord | undefined> {
      return genuine(
        await db.one<IdentityRow>(sql`
          select ${columns} from oidc_identity where id = ${id} and workspace_id = ${workspaceId} ${forUpdate}`),
      )
    },

    /** Newest first. */
    async list(workspaceId: string): Promise<IdentityRecord[]> {
      return genuineOnly(
        await db.all<IdentityRow>(sql`
          select ${columns} from oidc_identity where workspace_id = ${workspaceId} order by id desc`),
      )
    },

    async listByIds(ids: readonly string[], workspaceId: string): Promise<IdentityRecord[]> {
      if (ids.length === 0) return []
      return genuineOnly(
        await db.all<IdentityRow>(sql`
          select ${columns} from oidc_identity where id ${anyOf(ids)} and workspace_id = ${workspaceId}`),
      )
    },

    /** Enabled identities that a token of this issuer may match, newest first. */
    async listEnabled(workspaceId: string, issuer: string): Promise<IdentityRecord[]> {
      const found = await db.all<IdentityRow>(sql`
        select ${columns} from oidc_identity
        where workspace_id = ${workspaceId} and issuer = ${issuer} and is_enabled = 1
        order by created_at desc, id desc`)
      return genuineOnly(found)
    },

    async count(workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from oidc_identity where workspace_id = ${workspaceId}`)
      return row?.count ?? 0
    },

    async insert(identity: IdentityRecord): Promise<void> {
      const row = toRow(identity)
      db.write(sql`
        insert into oidc_identity (id, workspace_id, name, issuer, audience, subject, claims, permission, scope,
          is_enabled, generation, created_by, created_at, updated_at, mac, mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.name}, ${row.issuer}, ${row.audience}, ${row.subject},
          ${row.claims}, ${row.permission}, ${row.scope}, ${row.isEnabled}, ${row.generation}, ${row.createdBy}, ${row.createdAt},
          ${row.updatedAt}, ${row.mac}, ${row.macRootId})`)
      await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, after: row.mac }])
    },

    async update(identity: IdentityRecord): Promise<void> {
      const row = toRow(identity)
      const current = await db.one<{ mac: Uint8Array }>(sql`
        select mac from oidc_identity where id = ${row.id} and workspace_id = ${row.workspaceId} ${forUpdate}`)
      if (!current) return
      db.write(sql`
        update oidc_identity set name = ${row.name}, issuer = ${row.issuer}, audience = ${row.audience},
          subject = ${row.subject}, claims = ${row.claims}, permission = ${row.permission}, scope = ${row.scope},
          is_enabled = ${row.isEnabled}, generation = ${row.generation}, updated_at = ${row.updatedAt},
          mac = ${row.mac}, mac_root_id = ${row.macRootId}
        where id = ${row.id} and workspace_id = ${row.workspaceId}`)
      await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, before: current.mac, after: row.mac }])
    },

    async remove(id: string, workspaceId: string): Promise<void> {
      const removed = await db.one<{ mac: Uint8Array }>(sql`
        delete from oidc_identity where id = ${id} and workspace_id = ${workspaceId} returning mac`)
      if (removed) await sets.change([{ workspaceId, table, id, before: removed.mac }])
    },

    touch(id: string, workspaceId: string, usedAt: number): void {
      db.write(sql`
        update oidc_identity set last_used_at = ${usedAt}
        where id = (
          select id from oidc_identity where id = ${id} and workspace_id = ${workspaceId}
            and (last_used_at is null or last_used_at < ${usedAt}) ${skipLocked})`)
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<IdentityRow>(sql`
        select ${columns} from oidc_identity where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(
        old,
        (row, { mac, macRootId }) =>
          db.count(sql`
          update oidc_identity set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`),
        (moved) => sets.replace(table, moved),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<IdentityRow>(sql`select ${columns} from oidc_identity where id > ${after} order by id limit 500`),
      ),
  }
}
