/** Members of a workspace with their grants. The row gives rights, so a MAC protects it. */
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { type Db, forUpdate, fragment, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { type AddRows, rowSetStore } from '../row-set.ts'
import { verifiedRows } from '../signed-row.ts'
import { fromGrantColumns, furtherGrantsField, type GrantColumns, type Grants, toGrantColumns } from './grant.ts'

export type Member = {
  readonly id: string
  readonly workspaceId: string
  readonly userId: string
  readonly isOwner: boolean
  readonly grants: Grants
  readonly createdAt: number
}
type MemberRow = Omit<Member, 'isOwner' | 'grants'> & GrantColumns & RowMac & { readonly isOwner: number }

const columns = fragment(`
  id, workspace_id as "workspaceId", user_id as "userId", role, is_owner as "isOwner", scope, grants,
  created_at as "createdAt", mac, mac_root_id as "macRootId"`)

type MemberFields = Omit<MemberRow, keyof RowMac>

const macFields = (row: MemberFields): MacField[] => [
  row.id,
  row.workspaceId,
  row.userId,
  row.role,
  row.isOwner,
  row.scope,
  row.createdAt,
  ...furtherGrantsField(row),
]

export function memberStore(db: Db, keys: Keys) {
  const rows = verifiedRows<MemberFields, MemberRow>(keys, 'member', macFields)
  const sets = rowSetStore(db, keys)
  const table = 'member'

  function toRow(member: Member): MemberRow {
    const row = { ...member, isOwner: member.isOwner ? 1 : 0, ...toGrantColumns(member.grants) }
    return { ...row, ...rows.sign(row) }
  }

  async function toMember(row: MemberRow): Promise<Member | undefined> {
    if (!(await rows.isGenuine(row))) return undefined
    const { id, workspaceId, userId, createdAt } = row
    return { id, workspaceId, userId, isOwner: row.isOwner === 1, grants: fromGrantColumns(row), createdAt }
  }

  return {
    /** Rows with a bad MAC grant nothing: they are skipped and counted in `tampered`. */
    async list(workspaceId: string, add?: AddRows): Promise<{ members: Member[]; tampered: number }> {
      const stored = await db.all<MemberRow>(sql`
        select ${columns} from member where workspace_id = ${workspaceId} order by id`)
      add?.(table, stored)
      const members: Member[] = []
      for (const row of stored) {
        const member = await toMember(row)
        if (member) members.push(member)
      }
      return { members, tampered: stored.length - members.length }
    },

    async find(id: string, workspaceId: string): Promise<Member | undefined> {
      const row = await db.one<MemberRow>(sql`
        select ${columns} from member where id = ${id} and workspace_id = ${workspaceId}`)
      return row && toMember(row)
    },

    async findOfUser(userId: string, workspaceId: string): Promise<Member | undefined> {
      const row = await db.one<MemberRow>(sql`
        select ${columns} from member where user_id = ${userId} and workspace_id = ${workspaceId}`)
      return row && toMember(row)
    },

    async countOf(userId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from member where user_id = ${userId}`)
      return row?.count ?? 0
    },

    /** False if the person is already a member. */
    async insert(member: Member): Promise<boolean> {
      const row = toRow(member)
      const changed = await db.count(sql`
        insert into member (id, workspace_id, user_id, role, is_owner, scope, grants, created_at, updated_at, mac, mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.userId}, ${row.role}, ${row.isOwner}, ${row.scope}, ${row.grants},
          ${row.createdAt}, ${row.createdAt}, ${row.mac}, ${row.macRootId})
        on conflict (workspace_id, user_id) do nothing`)
      if (changed === 1) await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, after: row.mac }])
      return changed === 1
    },

    async update(member: Member, nowMs: number): Promise<void> {
      const row = toRow(member)
      const current = await db.one<{ mac: Uint8Array }>(sql`
        select mac from member where id = ${row.id} and workspace_id = ${row.workspaceId} ${forUpdate}`)
      if (!current) return
      db.write(sql`
        update member set role = ${row.role}, is_owner = ${row.isOwner}, scope = ${row.scope},
          grants = ${row.grants}, updated_at = ${nowMs},
          mac = ${row.mac}, mac_root_id = ${row.macRootId}
        where id = ${row.id} and workspace_id = ${row.workspaceId}`)
      await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, before: current.mac, after: row.mac }])
    },

    async remove(id: string, workspaceId: string): Promise<boolean> {
      const removed = await db.one<{ mac: Uint8Array }>(sql`
        delete from member where id = ${id} and workspace_id = ${workspaceId} returning mac`)
      if (removed) await sets.change([{ workspaceId, table, id, before: removed.mac }])
      return removed !== undefined
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<MemberRow>(sql`
        select ${columns} from member where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(
        old,
        (row, { mac, macRootId }) =>
          db.count(sql`
          update member set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`),
        (moved) => sets.replace(table, moved),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<MemberRow>(sql`select ${columns} from member where id > ${after} order by id limit 500`),
      ),
  }
}
