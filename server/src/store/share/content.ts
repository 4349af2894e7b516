/** Contents of shares: plaintext above this file, sealed under the workspace key below it. */
import type { KeyObject } from 'node:crypto'
import type { OpenedShare } from '@coffer/contract/share'
import { associatedData, keyVersionOf, open, seal } from '../../crypto/envelope.ts'
import { type Db, type Reader, sql } from '../engine/sql.ts'
import {
  type Keys,
  requireWorkspaceKey,
  requireWrappedKey,
  type WorkspaceKeyRow,
  type WrappedWorkspaceKey,
} from '../key/key.ts'

export type ShareContent = Omit<OpenedShare, 'viewsLeft'>

type ContentPlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly id: string
  readonly kind: string
}
type SealedContent = ContentPlace & { readonly sealed: Uint8Array }

export async function sealContent(
  db: Reader,
  keys: Keys,
  place: ContentPlace,
  content: ShareContent,
): Promise<{ version: number; sealed: Buffer }> {
  const { version, key } = await requireWorkspaceKey(db, keys, place.workspaceId)
  return { version, sealed: seal(key, version, contentData(place), Buffer.from(JSON.stringify(content))) }
}

/** The key that has sealed a content: mostly the newest of the workspace. */
export async function findContentKey(
  db: Reader,
  keys: Keys,
  { workspaceId, sealed }: SealedContent,
  newest: WorkspaceKeyRow | undefined,
): Promise<WrappedWorkspaceKey> {
  const version = keyVersionOf(sealed)
  if (newest?.version !== version) return requireWrappedKey(db, keys, workspaceId, version)
  return { row: newest, root: await keys.requireRoot(newest.rootId) }
}

export const openContent = (key: KeyObject, share: SealedContent): ShareContent =>
  JSON.parse(open(key, contentData(share), share.sealed).toString('utf8'))

/** Seals a batch of contents under the workspace's newest key; returns their number. */
export async function resealContents(db: Db, keys: Keys, workspaceId: string, limit: number): Promise<number> {
  const newest = await requireWorkspaceKey(db, keys, workspaceId)
  const old = await db.all<Omit<SealedContent, 'workspaceId'>>(sql`
    select id, project_id as "projectId", kind, sealed from share
    where workspace_id = ${workspaceId} and sealed is not null and workspace_key_version < ${newest.version}
    order by id limit ${limit}`)
  for (const row of old) {
    const place = contentData({ ...row, workspaceId })
    const from = await requireWorkspaceKey(db, keys, workspaceId, keyVersionOf(row.sealed))
    const sealed = seal(newest.key, newest.version, place, open(from.key, place, row.sealed))
    db.write(sql`
      update share set sealed = ${sealed}, workspace_key_version = ${newest.version}
      where id = ${row.id} and workspace_id = ${workspaceId} and sealed is not null`)
  }
  return old.length
}

function contentData({ workspaceId, projectId, id, kind }: ContentPlace): Buffer {
  return associatedData('share-content', workspaceId, projectId, id, kind)
}
