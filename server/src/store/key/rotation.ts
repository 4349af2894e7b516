/** The steps of a key rotation, one batch at a time, and the count of what still depends on an old root key. */
import { open, seal } from '../../crypto/envelope.ts'
import { rewrapSigningKey } from '../../crypto/signing.ts'
import { type Db, forUpdate, type Reader, sql } from '../engine/sql.ts'
import {
  environmentKeyPlace,
  insertEnvironmentKey,
  insertWorkspaceKey,
  type Keys,
  requireWorkspaceKey,
  type WorkspaceKeyRow,
  workspaceKeyPlace,
} from './key.ts'
import { readKeyRows } from './rows.ts'

/** Re-wraps a batch of keys from older roots with the active root; returns the number of rows. */
export async function moveWorkspaceKeys(db: Db, keys: Keys, limit: number): Promise<number> {
  const active = keys.keyring.active
  const rows = await db.all<WorkspaceKeyRow & { workspaceId: string }>(sql`
    select workspace_id as "workspaceId", version, root_id as "rootId", wrapped from workspace_key
    where root_id <> ${active.id} order by root_id limit ${limit} ${forUpdate}`)
  for (const row of rows) {
    const from = await keys.requireRoot(row.rootId)
    const bytes = open(from.wrap, workspaceKeyPlace(row.workspaceId, row, from), row.wrapped)
    const wrapped = seal(active.wrap, row.version, workspaceKeyPlace(row.workspaceId, row, active), bytes)
    db.write(sql`
      update workspace_key set wrapped = ${wrapped}, root_id = ${active.id}
      where workspace_id = ${row.workspaceId} and version = ${row.version}`)
  }
  return rows.length
}

export async function moveSigningKeys(db: Db, keys: Keys, limit: number): Promise<number> {
  const active = keys.keyring.active
  const { signers } = await readKeyRows(db)
  const rows = signers.filter((row) => row.rootId !== active.id).slice(0, limit)
  for (const row of rows) {
    const moved = rewrapSigningKey(row, await keys.requireRoot(row.rootId), active)
    db.write(sql`
      update signing_key set wrapped = ${moved.wrapped}, root_id = ${active.id} where id = ${row.id}`)
  }
  return rows.length
}

/** Creates a new key, unless the previous rotation is still moving data to the newest one. */
export async function insertNextWorkspaceKey(db: Db, keys: Keys, workspaceId: string, nowMs: number): Promise<number> {
  const rows = await db.all<{ version: number }>(sql`
    select version from workspace_key where workspace_id = ${workspaceId} order by version desc`)
  const newest = rows[0]?.version ?? 0
  if (rows.length > 1) return newest
  insertWorkspaceKey(db, keys, workspaceId, newest + 1, nowMs)
  return newest + 1
}

type EnvironmentKeyRow = { environmentId: string; version: number; workspaceKeyVersion: number; wrapped: Uint8Array }

export async function moveEnvironmentKeys(db: Db, keys: Keys, workspaceId: string, limit: number): Promise<number> {
  const newest = await requireWorkspaceKey(db, keys, workspaceId)
  const rows = await db.all<EnvironmentKeyRow>(sql`
    select environment_id as "environmentId", version, workspace_key_version as "workspaceKeyVersion", wrapped
    from environment_key where workspace_id = ${workspaceId} and workspace_key_version < ${newest.version}
    order by environment_id, version limit ${limit}`)
  for (const row of rows) {
    const owner = { workspaceId, environmentId: row.environmentId }
    const from = await requireWorkspaceKey(db, keys, workspaceId, row.workspaceKeyVersion)
    const place = environmentKeyPlace(owner, row.version)
    const wrapped = seal(newest.key, newest.version, place, open(from.key, place, row.wrapped))
    db.write(sql`
      update environment_key set wrapped = ${wrapped}, workspace_key_version = ${newest.version}
      where environment_id = ${row.environmentId} and version = ${row.version} and workspace_id = ${workspaceId}`)
  }
  return rows.length
}

export function removeUnusedWorkspaceKeys(db: Db, workspaceId: string): Promise<number> {
  return db.count(sql`
    delete from workspace_key where workspace_id = ${workspaceId}
      and version < (select max(version) from workspace_key where workspace_id = ${workspaceId})
      and version not in (select workspace_key_version from environment_key where workspace_id = ${workspaceId})
      and version not in (
        select workspace_key_version from share where workspace_id = ${workspaceId} and sealed is not null)
      and version not in (select workspace_key_version from sync where workspace_id = ${workspaceId})`)
}

/** Creates the next version of an environment's key, or returns the one that an interrupted rotation created. */
export async function insertNextEnvironmentKey(
  db: Db,
  keys: Keys,
  owner: { workspaceId: string; environmentId: string },
  nowMs: number,
): Promise<number> {
  const rows = await db.all<{ version: number }>(sql`
    select version from environment_key
    where environment_id = ${owner.environmentId} and workspace_id = ${owner.workspaceId} order by version desc`)
  const newest = rows[0]?.version ?? 0
  // An interrupted rotation continues with the key that it created.
  if (rows.length > 1) return newest
  await insertEnvironmentKey(db, keys, owner, newest + 1, nowMs)
  return newest + 1
}

export function removeOlderEnvironmentKeys(db: Db, environmentId: string, newest: number): Promise<number> {
  return db.count(sql`delete from environment_key where environment_id = ${environmentId} and version < ${newest}`)
}

export type RootUses = {
  readonly id: string
  readonly isActive: boolean
  readonly workspaceKeys: number
  readonly signingKeys: number
  readonly macs: number
  /** Tokens, sessions, invites, shares, mailed and printed links and pending device logins whose hash this root keys. */
  readonly hashes: number
}

export async function countRootUses(db: Reader): Promise<RootUses[]> {
  const rows = await db.all<Omit<RootUses, 'isActive'> & { isActive: number }>(sql`
    select r.id, r.is_active as "isActive",
      (select count(*) from workspace_key where root_id = r.id) as "workspaceKeys",
      (select count(*) from signing_key where root_id = r.id) as "signingKeys",
      (select count(*) from member where mac_root_id = r.id)
        + (select count(*) from service_account where mac_root_id = r.id)
        + (select count(*) from workspace_policy where mac_root_id = r.id)
        + (select count(*) from token where mac_root_id = r.id)
        + (select count(*) from invite where mac_root_id = r.id)
        + (select count(*) from oidc_identity where mac_root_id = r.id)
        + (select count(*) from share where mac_root_id = r.id)
        + (select count(*) from account where mac_root_id = r.id)
        + (select count(*) from session where mac_root_id = r.id)
        + (select count(*) from session_factor where mac_root_id = r.id)
        + (select count(*) from totp where mac_root_id = r.id)
        + (select count(*) from email_confirmation where mac_root_id = r.id)
        + (select count(*) from device_login where mac_root_id = r.id)
        + (select count(*) from row_set where root_id = r.id) as macs,
      (select count(*) from token where hash_root_id = r.id)
        + (select count(*) from token where previous_hash_root_id = r.id)
        + (select count(*) from session where hash_root_id = r.id)
        + (select count(*) from invite where hash_root_id = r.id)
        + (select count(*) from share where token_root_id = r.id)
        + (select count(*) from email_confirmation where hash_root_id = r.id)
        + (select count(*) from password_reset where mac_root_id = r.id)
        + (select count(*) from device_login where hash_root_id = r.id) as hashes
    from root_key r order by r.is_active desc, r.created_at desc`)
  return rows.map((row) => ({ ...row, isActive: row.isActive === 1 }))
}

export function removeUnusedRoots(db: Db, keys: Keys): Promise<number> {
  return keys.change(db, async () => {
    let removed = 0
    for (const { id, isActive, workspaceKeys, signingKeys, macs, hashes } of await countRootUses(db)) {
      if (isActive || workspaceKeys + signingKeys + macs + hashes > 0) continue
      removed += await db.count(sql`delete from root_key where id = ${id} and is_active = 0`)
    }
    return removed
  })
}
