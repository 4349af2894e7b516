/**
 * Shares: found by the keyed hash of their token, with contents sealed under the workspace key. A MAC protects a row
 * that can still be opened. When the share ends, the contents, the hashes and the MAC are erased.
 */
import type { ShareState } from '@coffer/contract/share'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { anyOf, type Db, forUpdate, fragment, type Question, skipLocked, sql } from '../engine/sql.ts'
import type { Keys, WorkspaceKeyRow } from '../key/key.ts'
import { ownerField } from '../owner.ts'
import { verifiedRows } from '../signed-row.ts'
import { findContentKey, resealContents, type ShareContent, sealContent } from './content.ts'

export type ShareRecord = {
  readonly id: string
  readonly workspaceId: string
  readonly projectId: string
  readonly createdBy: string
  /** Null for the share of a person, its creator. */
  readonly serviceAccountId: string | null
  readonly kind: 'server' | 'e2e'
  readonly label: string
  /** Environments that the values came from, also through references; empty for a text or an envelope. */
  readonly environmentIds: readonly string[]
  readonly hasPassword: boolean
  readonly sizeBytes: number
  readonly maxViews: number
  readonly views: number
  readonly maxFailures: number
  readonly failures: number
  readonly state: ShareState
  readonly createdAt: number
  readonly expiresAt: number
  readonly lastViewedAt: number | null
  readonly endedAt: number | null
}
/** The hashes that a reader must match; erased when the share ends. */
export type ShareLock = {
  readonly passwordHash: string | null
  readonly linkProofHash: Uint8Array | null
  readonly passProofHash: Uint8Array | null
}
export type LockedShare = ShareRecord & ShareLock
export type SealedShare = ShareRecord & { readonly sealed: Uint8Array }

type ShareRow = Omit<ShareRecord, 'environmentIds' | 'hasPassword'> & {
  readonly environmentIds: string
  readonly hasPassword: number
}
type LockedRow = ShareRow & ShareLock & RowMac & { readonly tokenHash: string }
export type SealedRow = LockedRow & { readonly sealed: Uint8Array }
type MacRow = Omit<LockedRow, 'views' | 'failures' | 'state' | keyof RowMac>

const columns = fragment(`
  id, workspace_id as "workspaceId", project_id as "projectId", created_by as "createdBy",
  service_account_id as "serviceAccountId", kind, label, environment_ids as "environmentIds", has_password as "hasPassword", size_bytes as "sizeBytes",
  max_views as "maxViews", views, max_failures as "maxFailures", failures, state, created_at as "createdAt",
  expires_at as "expiresAt", last_viewed_at as "lastViewedAt", ended_at as "endedAt"`)
/** An index holds this expression. */
const owner = fragment(`coalesce(service_account_id, created_by)`)
const lockColumns = fragment(`
  token_hash as "tokenHash", password_hash as "passwordHash", link_proof_hash as "linkProofHash",
  pass_proof_hash as "passProofHash", mac, mac_root_id as "macRootId"`)
/** Erases the contents and everything that could find or open them. */
export const erased = fragment(`
  sealed = null, token_hash = null, token_root_id = null, password_hash = null, link_proof_hash = null,
  pass_proof_hash = null, mac = null, mac_root_id = null`)

/** All fields that stay constant while the share is open, so that no change of the row can extend access. */
const macFields = (row: MacRow): MacField[] => [
  row.id,
  row.workspaceId,
  row.projectId,
  row.createdBy,
  row.kind,
  row.label,
  row.environmentIds,
  row.hasPassword,
  row.sizeBytes,
  row.maxViews,
  row.maxFailures,
  row.createdAt,
  row.expiresAt,
  row.tokenHash,
  row.passwordHash,
  row.linkProofHash,
  row.passProofHash,
  ...ownerField(row),
]

/** Checked if no share was found. A MAC of zeros is never valid. */
const nobodys: Omit<LockedRow, 'macRootId'> = {
  id: '00000000-0000-0000-0000-000000000000',
  workspaceId: '00000000-0000-0000-0000-000000000000',
  projectId: '00000000-0000-0000-0000-000000000000',
  createdBy: '00000000-0000-0000-0000-000000000000',
  serviceAccountId: null,
  kind: 'e2e',
  label: '',
  environmentIds: '[]',
  hasPassword: 0,
  sizeBytes: 0,
  maxViews: 0,
  views: 0,
  maxFailures: 0,
  failures: 0,
  state: 'revoked',
  createdAt: 0,
  expiresAt: 0,
  lastViewedAt: null,
  endedAt: null,
  tokenHash: '',
  passwordHash: null,
  linkProofHash: Buffer.alloc(32),
  passProofHash: null,
  mac: Buffer.alloc(32),
}

/**
 * Locks a share that can still be opened: its views, failures and state stay as they are until the commit. Asked within a
 * workspace.
 */
export const lockedShare: Question<SealedRow> = {
  // In the order of their ids, so that two transactions cannot wait for each other.
  query: (workspaceId, ids) => sql`
    select ${columns}, ${lockColumns}, sealed from share
    where id ${anyOf(ids)} and workspace_id = ${workspaceId} and sealed is not null order by id ${forUpdate}`,
  keyOf: ({ id }) => id,
}

export function shareStore(db: Db, keys: Keys) {
  const rows = verifiedRows<MacRow, LockedRow>(keys, 'share', macFields)

  return {
    async insert(share: ShareRecord & ShareLock, token: string, content: ShareContent): Promise<void> {
      const root = keys.keyring.active
      const tokenHash = hashBearer(root, token).toString('hex')
      const environmentIds = JSON.stringify(share.environmentIds)
      const row = { ...share, environmentIds, hasPassword: share.hasPassword ? 1 : 0, tokenHash }
      const { mac, macRootId } = rows.sign(row)
      const { version, sealed } = await sealContent(db, keys, share, content)
      db.write(sql`
        insert into share (id, workspace_id, project_id, created_by, service_account_id, kind, label, environment_ids,
          has_password, size_bytes, max_views, views, max_failures, failures, state, created_at, expires_at, token_hash,
          token_root_id, password_hash, link_proof_hash, pass_proof_hash, workspace_key_version, sealed, mac,
          mac_root_id)
        values (${row.id}, ${row.workspaceId}, ${row.projectId}, ${row.createdBy}, ${row.serviceAccountId},
          ${row.kind}, ${row.label}, ${environmentIds}, ${row.hasPassword}, ${row.sizeBytes}, ${row.maxViews}, 0, ${row.maxFailures}, 0, 'active',
          ${row.createdAt}, ${row.expiresAt}, ${tokenHash}, ${root.id}, ${row.passwordHash}, ${row.linkProofHash},
          ${row.passProofHash}, ${version}, ${sealed}, ${mac}, ${macRootId})`)
    },

    /** Always one lookup and one MAC, whether or not the token exists, so that all refusals take equally long. */
    async findByToken(token: string): Promise<LockedShare | undefined> {
      const hashes = keys.keyring.all.map((root) => hashBearer(root, token).toString('hex'))
      const row = await db.one<LockedRow>(sql`
        select ${columns}, ${lockColumns} from share where token_hash ${anyOf(hashes)} and sealed is not null`)
      const isGenuine = await rows.isGenuine(row ?? { ...nobodys, macRootId: keys.keyring.active.id })
      if (!row || !isGenuine) return undefined
      const { tokenHash: _hash, mac: _mac, macRootId: _root, ...share } = row
      return { ...share, ...toRecord(row) }
    },

    /** Undefined if the row was tampered with. */
    async verify(row: SealedRow): Promise<SealedShare | undefined> {
      return (await rows.isGenuine(row)) ? { ...toRecord(row), sealed: row.sealed } : undefined
    },

    findContentKey: (share: SealedShare, newest: WorkspaceKeyRow | undefined) =>
      findContentKey(db, keys, share, newest),

    /** Stores what openings have counted. Call with the shares locked. */
    saveCounts(share: ShareRecord): void {
      db.writeMany(
        [share],
        ({ id, workspaceId, views, failures, state, lastViewedAt, endedAt }) => sql`
        update share set views = cast(given.column3 as bigint), failures = cast(given.column4 as bigint), state = given.column5,
          last_viewed_at = cast(given.column6 as bigint), ended_at = cast(given.column7 as bigint)
        from (values (${id}, ${workspaceId}, ${views}, ${failures}, ${state}, ${lastViewedAt}, ${endedAt})) as given
        where share.id = given.column1 and share.workspace_id = given.column2`,
        ({ id }) => id,
      )
    },

    /** False if nothing was left to revoke. */
    async revoke(share: ShareRecord, nowMs: number): Promise<boolean> {
      const changed = await db.count(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and sealed is not null`)
      return changed === 1
    },

    /**
     * An ended share no longer needs its contents, unless it was viewed with a claim since then: that reader may come
     * back for a lost response.
     */
    erase(share: ShareRecord, claimedSinceMs: number): void {
      db.write(sql`
        update share set ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and state <> 'active' and not exists (
          select 1 from share_view v
          where v.share_id = share.id and v.claim_hash is not null and v.outcome = 'success' and v.at > ${claimedSinceMs})`)
    },

    /** Number of shares of a person or a service account that have not been erased yet. */
    async countOf(ownerId: string, workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from share
        where workspace_id = ${workspaceId} and ${owner} = ${ownerId} and sealed is not null`)
      return row?.count ?? 0
    },

    /** Revokes all shares of a person or a service account in a workspace; returns how many had not been erased yet. */
    async revokeOf(ownerId: string, workspaceId: string, nowMs: number): Promise<number> {
      return db.count(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where workspace_id = ${workspaceId} and ${owner} = ${ownerId} and sealed is not null`)
    },

    /** Revokes all shares with values of an environment, in any project. */
    revokeFrom(environmentId: string, workspaceId: string, nowMs: number): void {
      const named = `%"${environmentId}"%`
      db.write(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where workspace_id = ${workspaceId} and environment_ids like ${named}
          and sealed is not null`)
    },

    /** Stores the expiry when it is first noticed, so that setting the clock back does not revive the share. */
    expire(share: ShareRecord, nowMs: number): void {
      db.write(sql`
        update share set state = case when state = 'active' then 'expired' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and sealed is not null`)
    },

    async expireAll(nowMs: number, limit: number): Promise<number> {
      return db.count(sql`
        update share set state = 'expired', ended_at = ${nowMs}, ${erased}
        where id in (
          select id from share where sealed is not null and state = 'active' and expires_at <= ${nowMs}
          limit ${limit} ${skipLocked})`)
    },

    /**
     * Erases ended shares that were kept for readers with a lost response. An end in the far future comes from a clock
     * that was set back, and counts too.
     */
    async eraseEnded(endedBeforeMs: number, notAfterMs: number, limit: number): Promise<number> {
      return db.count(sql`
        update share set ${erased}
        where id in (
          select id from share where sealed is not null and (ended_at <= ${endedBeforeMs} or ended_at > ${notAfterMs})
          limit ${limit} ${skipLocked})`)
    },

    async removeEndedBefore(beforeMs: number, limit: number): Promise<number> {
      return db.count(sql`
        delete from share where id in (
          select id from share where ended_at is not null and ended_at <= ${beforeMs} limit ${limit} ${skipLocked})`)
    },

    async find(id: string, projectId: string, workspaceId: string): Promise<ShareRecord | undefined> {
      const row = await db.one<ShareRow>(sql`
        select ${columns} from share
        where id = ${id} and project_id = ${projectId} and workspace_id = ${workspaceId}`)
      return row && toRecord(row)
    },

    /** Newest first; `ownerId` limits the list to the shares of one person or service account. */
    async list(projectId: string, workspaceId: string, ownerId: string | null): Promise<ShareRecord[]> {
      const found = await db.all<ShareRow>(sql`
        select ${columns} from share
        where project_id = ${projectId} and workspace_id = ${workspaceId}
          and (cast(${ownerId} as text) is null or ${owner} = ${ownerId})
        order by id desc`)
      return found.map(toRecord)
    },

    async countLiving(projectId: string, workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from share
        where project_id = ${projectId} and workspace_id = ${workspaceId} and sealed is not null`)
      return row?.count ?? 0
    },

    reseal: (workspaceId: string, limit: number) => resealContents(db, keys, workspaceId, limit),

    async resign(limit: number): Promise<number> {
      const old = await db.all<LockedRow>(sql`
        select ${columns}, ${lockColumns} from share
        where mac_root_id <> ${keys.keyring.active.id} order by mac_root_id limit ${limit}`)
      // Openings lock their shares in this order.
      const inOrder = old.toSorted((one, other) => (one.id < other.id ? -1 : 1))
      return rows.resign(inOrder, (row, { mac, macRootId }) =>
        db.count(
          sql`update share set mac = ${mac}, mac_root_id = ${macRootId} where id = ${row.id} and mac is not distinct from ${row.mac}`,
        ),
      )
    },

    countTampered: () =>
      rows.countTampered((after) =>
        db.all<LockedRow>(sql`
          select ${columns}, ${lockColumns} from share
          where id > ${after} and (mac is not null or sealed is not null) order by id limit 500`),
      ),
  }
}

function toRecord(row: ShareRow): ShareRecord {
  return { ...row, hasPassword: row.hasPassword === 1, environmentIds: parseIds(row.environmentIds) }
}

/** Lists include unverified rows. A damaged row gets an environment id that nobody can access. */
function parseIds(text: string): string[] {
  try {
    const ids: unknown = JSON.parse(text)
    return Array.isArray(ids) ? ids.map(String) : ['']
  } catch {
    return ['']
  }
}
