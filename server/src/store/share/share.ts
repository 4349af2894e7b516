/**
 * Shares: found by the keyed hash of their token, with contents sealed under the workspace key. A MAC protects a row
 * that can still be opened. When the share ends, the contents, the hashes and the MAC are erased.
 */
import type { ShareState } from '@coffer/contract/share'
import type { MacField, RowMac } from '../../crypto/row-mac.ts'
import { hashBearer } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, fragment, skipLocked, sql } from '../engine/sql.ts'
import { createJointLookup } from '../joint-lookup.ts'
import type { Keys } from '../key/key.ts'
import { ownerField } from '../owner.ts'
import { verifiedRows } from '../signed-row.ts'
import { contentOpener, resealContents, type ShareContent, sealContent } from './content.ts'

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
type SealedRow = LockedRow & { readonly sealed: Uint8Array }
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

export function shareStore(db: Db, keys: Keys) {
  const rows = verifiedRows<MacRow, LockedRow>(keys, 'share', macFields)

  /** Readers of many shares come at once, and a query costs more than the rows that it returns. */
  const findByHash = createJointLookup(async (hashes) => {
    const found = await db.all<LockedRow>(sql`
      select ${columns}, ${lockColumns} from share where token_hash ${anyOf(hashes)} and sealed is not null`)
    return new Map(found.map((row) => [row.tokenHash, row]))
  })

  async function genuineOnes(found: readonly SealedRow[]): Promise<ReadonlyMap<string, SealedShare>> {
    const shares = new Map<string, SealedShare>()
    for (const row of found) {
      if (await rows.isGenuine(row)) shares.set(row.id, { ...toRecord(row), sealed: row.sealed })
    }
    return shares
  }

  return {
    async insert(share: ShareRecord & ShareLock, token: string, content: ShareContent): Promise<void> {
      const root = keys.keyring.active
      const tokenHash = hashBearer(root, token).toString('hex')
      const environmentIds = JSON.stringify(share.environmentIds)
      const row = { ...share, environmentIds, hasPassword: share.hasPassword ? 1 : 0, tokenHash }
      const { mac, macRootId } = rows.sign(row)
      const { version, sealed } = await sealContent(db, keys, share, content)
      await db.run(sql`
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
      const row = await findByHash(hashes)
      const isGenuine = await rows.isGenuine(row ?? { ...nobodys, macRootId: keys.keyring.active.id })
      if (!row || !isGenuine) return undefined
      const { tokenHash: _hash, mac: _mac, macRootId: _root, ...share } = row
      return { ...share, ...toRecord(row) }
    },

    /** Those of the shares that can still be opened, by id. */
    async listSealed(ids: readonly string[], workspaceId: string): Promise<ReadonlyMap<string, SealedShare>> {
      if (ids.length === 0) return new Map()
      const found = await db.all<SealedRow>(sql`
        select ${columns}, ${lockColumns}, sealed from share
        where id ${anyOf(ids)} and workspace_id = ${workspaceId} and sealed is not null`)
      return genuineOnes(found)
    },

    contentOpener: (workspaceId: string) => contentOpener(db, keys, workspaceId),

    /**
     * Takes one view of each share that has any left. This single statement lets exactly `maxViews` of any number of
     * concurrent readers pass. Returns those shares, with the new number of views. Fails if one was tampered with, so
     * that the view is rolled back.
     */
    async takeViews(
      ids: readonly string[],
      workspaceId: string,
      nowMs: number,
    ): Promise<ReadonlyMap<string, SealedShare>> {
      if (ids.length === 0) return new Map()
      const taken = await db.all<SealedRow>(sql`
        update share set views = views + 1, last_viewed_at = ${nowMs},
          state = case when views + 1 >= max_views then 'exhausted' else state end,
          ended_at = case when views + 1 >= max_views then cast(${nowMs} as bigint) else null end
        where id ${anyOf(ids)} and workspace_id = ${workspaceId} and state = 'active' and views < max_views
          and failures < max_failures and expires_at > ${nowMs} and sealed is not null
        returning ${columns}, ${lockColumns}, sealed`)
      const shares = await genuineOnes(taken)
      if (shares.size < taken.length) throw new Failure('notFound')
      return shares
    },

    /** Counts a wrong password and locks the share at the limit. Undefined if the share had already ended. */
    async takeFailure(share: ShareRecord, nowMs: number): Promise<number | undefined> {
      const row = await db.one<{ failures: number }>(sql`
        update share set failures = failures + 1,
          state = case when failures + 1 >= max_failures then 'locked' else state end,
          ended_at = case when failures + 1 >= max_failures then cast(${nowMs} as bigint) else null end
        where id = ${share.id} and workspace_id = ${share.workspaceId} and state = 'active' and views < max_views
          and failures < max_failures and expires_at > ${nowMs} and sealed is not null
        returning failures`)
      return row?.failures
    },

    /** False if nothing was left to revoke. */
    async revoke(share: ShareRecord, nowMs: number): Promise<boolean> {
      const changed = await db.run(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and sealed is not null`)
      return changed === 1
    },

    /** An ended share no longer needs its contents. */
    async erase(share: ShareRecord): Promise<void> {
      await db.run(sql`
        update share set ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and state <> 'active'`)
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
      return db.run(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where workspace_id = ${workspaceId} and ${owner} = ${ownerId} and sealed is not null`)
    },

    /** Revokes all shares with values of an environment, in any project. */
    async revokeFrom(environmentId: string, workspaceId: string, nowMs: number): Promise<void> {
      const named = `%"${environmentId}"%`
      await db.run(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where workspace_id = ${workspaceId} and environment_ids like ${named}
          and sealed is not null`)
    },

    /** Stores the expiry when it is first noticed, so that setting the clock back does not revive the share. */
    async expire(share: ShareRecord, nowMs: number): Promise<void> {
      await db.run(sql`
        update share set state = case when state = 'active' then 'expired' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where id = ${share.id} and workspace_id = ${share.workspaceId} and sealed is not null`)
    },

    async expireAll(nowMs: number, limit: number): Promise<number> {
      return db.run(sql`
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
      return db.run(sql`
        update share set ${erased}
        where id in (
          select id from share where sealed is not null and (ended_at <= ${endedBeforeMs} or ended_at > ${notAfterMs})
          limit ${limit} ${skipLocked})`)
    },

    async removeEndedBefore(beforeMs: number, limit: number): Promise<number> {
      return db.run(sql`
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
      return rows.resign(old, (row, { mac, macRootId }) =>
        db.run(
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
