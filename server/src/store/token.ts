/** API tokens, found by the keyed hash of their value. The row grants rights, so a MAC protects it. */
import type { Permission, Scope } from '@coffer/contract/field'
import { newKey } from '../crypto/envelope.ts'
import type { MacField, RowMac } from '../crypto/row-mac.ts'
import { hashBearer } from '../crypto/token.ts'
import { anyOf, type Db, forUpdate, fragment, skipLocked, sql } from './engine/sql.ts'
import type { Keys } from './key/key.ts'
import { ownerField } from './owner.ts'
import { rowSetStore, type SetChange } from './row-set.ts'
import { verifiedRows } from './signed-row.ts'

export type TokenRecord = {
  readonly id: string
  readonly workspaceId: string
  readonly createdBy: string
  /** Null for the token of a person, its creator. */
  readonly serviceAccountId: string | null
  readonly name: string
  readonly type: 'static' | 'cli'
  readonly prefix: string
  readonly hash: Uint8Array
  readonly hashRootId: string
  readonly previousHash: Uint8Array | null
  readonly previousHashRootId: string | null
  readonly previousUntil: number | null
  readonly generation: number
  readonly permission: Permission
  readonly scope: Scope
  readonly allowedIps: readonly string[]
  /** May manage who else has access. Never true for the token of a service account. */
  readonly mayAdminister: boolean
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  readonly lastUsedAt: number | null
  readonly lastUsedIp: string | null
}
type TokenRow = Omit<TokenRecord, 'scope' | 'allowedIps' | 'mayAdminister'> &
  RowMac & { readonly scope: string; readonly allowedIps: string; readonly mayAdminister: number | null }

const columns = fragment(`
  id, workspace_id as "workspaceId", created_by as "createdBy", service_account_id as "serviceAccountId", name,
  type, prefix, hash, hash_root_id as "hashRootId", previous_hash as "previousHash", previous_hash_root_id as "previousHashRootId",
  previous_until as "previousUntil", generation, permission, scope, allowed_ips as "allowedIps", may_administer as "mayAdminister",
  created_at as "createdAt", expires_at as "expiresAt", revoked_at as "revokedAt", last_used_at as "lastUsedAt",
  last_used_ip as "lastUsedIp", mac, mac_root_id as "macRootId"`)

type RemovedToken = { readonly id: string; readonly workspaceId: string; readonly mac: Uint8Array }
const removedColumns = fragment(`id, workspace_id as "workspaceId", mac`)

/** An index holds this expression. */
const owner = fragment(`coalesce(service_account_id, created_by)`)

type TokenFields = Omit<TokenRow, keyof RowMac>

const macFields = (row: TokenFields): MacField[] => [
  row.id,
  row.workspaceId,
  row.createdBy,
  row.type,
  row.hash,
  row.previousHash,
  row.previousUntil,
  row.generation,
  row.permission,
  row.scope,
  row.allowedIps,
  row.createdAt,
  row.expiresAt,
  row.revokedAt,
  ...ownerField(row),
  // The word keeps the field from being taken for the owner's. Nodes of the version before refuse such a token.
  ...(row.mayAdminister === null ? [] : ['may-administer', row.mayAdminister]),
]

export function tokenStore(db: Db, keys: Keys) {
  const rows = verifiedRows<TokenFields, TokenRow>(keys, 'token', macFields)
  const sets = rowSetStore(db, keys)
  const table = 'token'

  function toRow(token: TokenRecord): TokenRow {
    const [scope, allowedIps] = [JSON.stringify(token.scope), JSON.stringify(token.allowedIps)]
    const row = { ...token, scope, allowedIps, mayAdminister: token.mayAdminister ? 1 : null }
    return { ...row, ...rows.sign(row) }
  }

  async function genuine(row: TokenRow | undefined): Promise<TokenRecord | undefined> {
    if (!row || !(await rows.isGenuine(row))) return undefined
    const { mac: _mac, macRootId: _root, ...token } = row
    const [scope, allowedIps] = [JSON.parse(row.scope), JSON.parse(row.allowedIps)]
    return { ...token, scope, allowedIps, mayAdminister: row.mayAdminister === 1 }
  }

  /** Rows with a bad MAC grant nothing and are skipped. */
  async function genuineOnly(stored: readonly TokenRow[]): Promise<TokenRecord[]> {
    const tokens: TokenRecord[] = []
    for (const row of stored) {
      const token = await genuine(row)
      if (token) tokens.push(token)
    }
    return tokens
  }

  /** Changes the sets of tokens that were deleted; returns their number. */
  async function noteRemoved(removed: readonly RemovedToken[]): Promise<number> {
    await sets.change(removed.map(({ id, workspaceId, mac }) => ({ workspaceId, table, id, before: mac })))
    return removed.length
  }

  /** Returns the change of the token's set; undefined if the value of the token has changed meanwhile. */
  async function save(row: TokenRow, expected: Uint8Array): Promise<SetChange | undefined> {
    const { id, workspaceId } = row
    const current = await db.one<{ mac: Uint8Array }>(sql`
      select mac from token where id = ${id} and workspace_id = ${workspaceId} and hash = ${expected} ${forUpdate}`)
    if (!current) return undefined
    db.write(sql`
      update token set service_account_id = ${row.serviceAccountId}, prefix = ${row.prefix}, hash = ${row.hash}, hash_root_id = ${row.hashRootId},
        previous_hash = ${row.previousHash}, previous_hash_root_id = ${row.previousHashRootId},
        previous_until = ${row.previousUntil}, generation = ${row.generation}, revoked_at = ${row.revokedAt},
        mac = ${row.mac}, mac_root_id = ${row.macRootId}
      where id = ${id} and workspace_id = ${workspaceId} and hash = ${expected}`)
    return { workspaceId, table, id, before: current.mac, after: row.mac }
  }

  async function saveOne(row: TokenRow, expected: Uint8Array): Promise<boolean> {
    const change = await save(row, expected)
    if (change) await sets.change([change])
    return change !== undefined
  }

  return {
    async find(id: string, workspaceId: string): Promise<TokenRecord | undefined> {
      return genuine(
        await db.one<TokenRow>(sql`
          select ${columns} from token where id = ${id} and workspace_id = ${workspaceId}`),
      )
    },

    /** Locks the row until the commit, so that it cannot change between the check and the write. */
    async findForChange(id: string, workspaceId: string): Promise<TokenRecord | undefined> {
      return genuine(
        await db.one<TokenRow>(sql`
          select ${columns} from token where id = ${id} and workspace_id = ${workspaceId} ${forUpdate}`),
      )
    },

    /** Finds the token of a current or previous value. Checks only the hash, not the MAC or the expiry. */
    async locate(value: string): Promise<{ id: string; workspaceId: string; isUnderOldRoot: boolean } | undefined> {
      for (const root of keys.keyring.all) {
        const hash = hashBearer(root, value)
        const row = await db.one<{ id: string; workspaceId: string }>(sql`
          select id, workspace_id as "workspaceId" from token where hash = ${hash}
          union all
          select id, workspace_id as "workspaceId" from token where previous_hash = ${hash}
          limit 1`)
        if (row) return { ...row, isUnderOldRoot: root !== keys.keyring.active }
      }
      return undefined
    },

    /**
     * Hashes the value with the active root, so that the old root can be removed. Only possible while the value is at
     * hand.
     */
    async rehash(id: string, workspaceId: string, value: string): Promise<boolean> {
      const token = await this.findForChange(id, workspaceId)
      const isCurrent = token && keys.keyring.all.some((root) => hashBearer(root, value).equals(token.hash))
      const root = keys.keyring.active
      if (!isCurrent || token.hashRootId === root.id) return false
      return saveOne(toRow({ ...token, hash: hashBearer(root, value), hashRootId: root.id }), token.hash)
    },

    /**
     * A page before the id `before`, newest first; `ownerId` limits it to the tokens of one person or service account.
     * `next` is the cursor of the next page.
     */
    async list(
      workspaceId: string,
      ownerId: string | null,
      { before, limit }: { before: string; limit: number },
    ): Promise<{ tokens: TokenRecord[]; next: string | undefined }> {
      const found = await db.all<TokenRow>(sql`
        select ${columns} from token
        where workspace_id = ${workspaceId} and id < ${before}
          and (cast(${ownerId} as text) is null or ${owner} = ${ownerId})
        order by id desc limit ${limit + 1}`)
      const shown = found.slice(0, limit)
      return { tokens: await genuineOnly(shown), next: found.length > limit ? shown.at(-1)?.id : undefined }
    },

    /** A page after the id `after`, oldest first, of tokens that are neither revoked nor expired. */
    async listLiving(
      workspaceId: string,
      nowMs: number,
      { after, limit }: { after: string; limit: number },
    ): Promise<TokenRecord[]> {
      const tokens: TokenRecord[] = []
      // Skipped rows are made up for: a short page means that there are no more.
      for (let from = after, hasMore = true; hasMore && tokens.length < limit; ) {
        const wanted = limit - tokens.length
        const found = await db.all<TokenRow>(sql`
          select ${columns} from token
          where workspace_id = ${workspaceId} and id > ${from}
            and revoked_at is null and (expires_at is null or expires_at > ${nowMs})
          order by id limit ${wanted}`)
        tokens.push(...(await genuineOnly(found)))
        hasMore = found.length === wanted
        from = found.at(-1)?.id ?? from
      }
      return tokens
    },

    /** Removes an owner's ended tokens, oldest first, until one more fits; false if too many are still valid. */
    async makeRoom(workspaceId: string, ownerId: string, nowMs: number, max: number): Promise<boolean> {
      const owned = await db.one<{ count: number }>(sql`
        select count(*) as count from token
        where workspace_id = ${workspaceId} and ${owner} = ${ownerId}`)
      const excess = (owned?.count ?? 0) - max + 1
      if (excess <= 0) return true
      const removed = await db.all<RemovedToken>(sql`
        delete from token where id in (
          select id from token where workspace_id = ${workspaceId} and ${owner} = ${ownerId}
            and (revoked_at is not null or expires_at <= ${nowMs}) order by id limit ${excess})
        returning ${removedColumns}`)
      return (await noteRemoved(removed)) === excess
    },

    async listByIds(ids: readonly string[], workspaceId: string): Promise<TokenRecord[]> {
      if (ids.length === 0) return []
      return genuineOnly(
        await db.all<TokenRow>(sql`
          select ${columns} from token where id ${anyOf(ids)} and workspace_id = ${workspaceId}`),
      )
    },

    async insert(token: TokenRecord): Promise<void> {
      const row = toRow(token)
      db.write(sql`
        insert into token (id, workspace_id, created_by, service_account_id, name, type, prefix, hash, hash_root_id,
          generation, permission, scope, allowed_ips, may_administer, created_at, expires_at, mac, mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.createdBy}, ${row.serviceAccountId}, ${row.name}, ${row.type},
          ${row.prefix}, ${row.hash}, ${row.hashRootId}, ${row.generation}, ${row.permission}, ${row.scope}, ${row.allowedIps},
          ${row.mayAdminister}, ${row.createdAt}, ${row.expiresAt}, ${row.mac}, ${row.macRootId})`)
      await sets.change([{ workspaceId: row.workspaceId, table, id: row.id, after: row.mac }])
    },

    /** Writes owner, value, generation and revocation; false if the value changed meanwhile. */
    async update(token: TokenRecord, expected: TokenRecord): Promise<boolean> {
      return saveOne(toRow(token), expected.hash)
    },

    /** All tokens of a person or a service account, ended ones included, newest first. */
    async listOf(ownerId: string, workspaceId: string): Promise<TokenRecord[]> {
      return genuineOnly(
        await db.all<TokenRow>(sql`
          select ${columns} from token where workspace_id = ${workspaceId} and ${owner} = ${ownerId} order by id desc`),
      )
    },

    async listOfServiceAccounts(workspaceId: string): Promise<TokenRecord[]> {
      return genuineOnly(
        await db.all<TokenRow>(sql`
          select ${columns} from token where workspace_id = ${workspaceId} and service_account_id is not null`),
      )
    },

    /** Removes all tokens of a person or a service account in a workspace; returns their number. */
    async removeOf(ownerId: string, workspaceId: string): Promise<number> {
      return noteRemoved(
        await db.all<RemovedToken>(sql`
          delete from token where workspace_id = ${workspaceId} and ${owner} = ${ownerId} returning ${removedColumns}`),
      )
    },

    async removeCliEndedBefore(beforeMs: number, limit: number): Promise<number> {
      return noteRemoved(
        await db.all<RemovedToken>(sql`
          delete from token where id in (
            select id from token where type = 'cli' and expires_at < ${beforeMs} limit ${limit})
          returning ${removedColumns}`),
      )
    },

    touch(id: string, workspaceId: string, usedAt: number, ip: string): void {
      db.write(sql`
        update token set last_used_at = ${usedAt}, last_used_ip = ${ip}
        where id = (
          select id from token where id = ${id} and workspace_id = ${workspaceId}
            and (last_used_at is null or last_used_at < ${usedAt}) ${skipLocked})`)
    },

    /** An ended value is never accepted again. Replacing its hash lets the old root key be removed. */
    async forgetEndedHashes(nowMs: number, limit: number): Promise<number> {
      const active = keys.keyring.active.id
      const old = await db.all<TokenRow>(sql`
        select ${columns} from token
        where (hash_root_id in (select id from root_key where is_active = 0)
            and (revoked_at is not null or expires_at <= ${nowMs}))
          or (previous_hash_root_id in (select id from root_key where is_active = 0)
            and (revoked_at is not null or expires_at <= ${nowMs} or previous_until <= ${nowMs}))
        order by id limit ${limit} ${forUpdate}`)
      const changes: SetChange[] = []
      for (const row of old) {
        const isOver = row.revokedAt !== null || (row.expiresAt !== null && row.expiresAt <= nowMs)
        const none = { previousHash: null, previousHashRootId: null, previousUntil: null }
        const next = { ...row, ...none, ...(isOver ? { hash: newKey(), hashRootId: active } : {}) }
        // A tampered row must not get a valid MAC.
        const signed = (await rows.isGenuine(row)) ? { ...next, ...rows.sign(next) } : next
        const change = await save(signed, row.hash)
        if (change) changes.push(change)
      }
      await sets.change(changes)
      return old.length
    },

    async resign(limit: number): Promise<number> {
      const old = await db.all<TokenRow>(sql`
        select ${columns} from token where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      return rows.resign(
        old,
        (row, { mac, macRootId }) =>
          db.count(sql`
          update token set mac = ${mac}, mac_root_id = ${macRootId}
          where id = ${row.id} and workspace_id = ${row.workspaceId} and mac = ${row.mac}`),
        (moved) => sets.replace(table, moved),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<TokenRow>(sql`select ${columns} from token where id > ${after} order by id limit 500`),
      ),
  }
}
