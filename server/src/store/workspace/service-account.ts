/** Service accounts with their grants. The row gives rights to the account's tokens, so a MAC protects it. */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, forUpdate, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { type AddRows, rowSetStore } from '../row-set.ts'
import { verifiedRows } from '../signed-row.ts'
import type { Grants } from './grant.ts'

export type ServiceAccount = {
  readonly id: string
  readonly workspaceId: string
  readonly name: string
  readonly grants: Grants
  readonly createdBy: string
  readonly createdAt: number
}
type AccountRow = Omit<ServiceAccount, 'grants'> & RowMac & { readonly grants: string }
type AccountFields = Omit<AccountRow, keyof RowMac>

const columns = fragment(`
  id, workspace_id as "workspaceId", name, grants, created_by as "createdBy", created_at as "createdAt", mac,
  mac_root_id as "macRootId"`)

const macFields = (row: AccountFields): MacField[] => [
  row.id,
  row.workspaceId,
  row.name,
  row.grants,
  row.createdBy,
  row.createdAt,
]

export function serviceAccountStore(db: Db, keys: Keys) {
  const rows = verifiedRows<AccountFields, AccountRow>(keys, 'service_account', macFields)
  const sets = rowSetStore(db, keys)
  const table = 'service_account'

  function toRow(account: ServiceAccount): AccountRow {
    const row = { ...account, grants: JSON.stringify(account.grants) }
    return { ...row, ...rows.sign(row) }
  }

  async function toAccount(row: AccountRow): Promise<ServiceAccount | undefined> {
    if (!(await rows.isGenuine(row))) return undefined
    const { mac: _mac, macRootId: _root, ...account } = row
    return { ...account, grants: JSON.parse(row.grants) }
  }

  return {
    /** Rows with a bad MAC grant nothing: they are skipped and counted in `tampered`. */
    async list(workspaceId: string, add?: AddRows): Promise<{ accounts: ServiceAccount[]; tampered: number }> {
      const stored = await db.all<AccountRow>(sql`
        select ${columns} from service_account where workspace_id = ${workspaceId} order by id`)
      add?.(table, stored)
      const accounts: ServiceAccount[] = []
      for (const row of stored) {
        const account = await toAccount(row)
        if (account) accounts.push(account)
      }
      return { accounts, tampered: stored.length - accounts.length }
    },

    async find(id: string, workspaceId: string): Promise<ServiceAccount | undefined> {
      const row = await db.one<AccountRow>(sql`
        select ${columns} from service_account where id = ${id} and workspace_id = ${workspaceId}`)
      return row && toAccount(row)
    },

    /** Includes tampered rows: they take a name and a place, too. */
    async count(workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from service_account where workspace_id = ${workspaceId}`)
      return row?.count ?? 0
    },

    /** False if the name is taken. */
    async insert(account: ServiceAccount): Promise<boolean> {
      const row = toRow(account)
      const changed = await db.count(sql`
        insert into service_account (id, workspace_id, name, grants, created_by, created_at, updated_at, mac, mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.name}, ${row.grants}, ${row.createdBy}, ${row.createdAt},
          ${row.createdAt}, ${row.mac}, ${row.macRootId})
        on conflict (workspace_id, name) do nothing`)
      if (changed === 1) await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, after: row.mac }])
      return changed === 1
    },

    async isNameTaken({ id, workspaceId, name }: ServiceAccount): Promise<boolean> {
      const row = await db.one(sql`
        select id from service_account where workspace_id = ${workspaceId} and name = ${name} and id <> ${id}`)
      return row !== undefined
    },

    async update(account: ServiceAccount, nowMs: number): Promise<void> {
      const row = toRow(account)
      const current = await db.one<{ mac: Uint8Array }>(sql`
        select mac from service_account where id = ${row.id} and workspace_id = ${row.workspaceId} ${forUpdate}`)
      if (!current) return
      db.write(sql`
        update service_account set name = ${row.name}, grants = ${row.grants}, updated_at = ${nowMs},
          mac = ${row.mac}, mac_root_id = ${row.macRootId}
        where id = ${row.id} and workspace_id = ${row.workspaceId}`)
      await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, before: current.mac, after: row.mac }])
    },

    /** Remove its tokens first. Its shares go with it. */
    async remove(id: string, workspaceId: string): Promise<boolean> {
      const removed = await db.one<{ mac: Uint8Array }>(sql`
        delete from service_account where id = ${id} and workspace_id = ${workspaceId} returning mac`)
      if (removed) await sets.change([{ workspaceId, table, id, before: removed.mac }])
      return removed !== undefined
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<AccountRow>(sql`
        select ${columns} from service_account
        where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(
        old,
        (row, { mac, macRootId }) =>
          db.count(sql`
          update service_account set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`),
        (moved) => sets.replace(table, moved),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<AccountRow>(sql`select ${columns} from service_account where id > ${after} order by id limit 500`),
      ),
  }
}
