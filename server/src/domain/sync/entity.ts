/** How the audit trail names a sync, who sees it, and what they read if its owner has lost the right to push. */
import type { SyncRecord } from '../../store/sync/sync.ts'
import { inRole, type ProjectAccess, reachesEnvironments } from '../access/access.ts'

export const syncEntity = ({ id, name }: { id: string; name: string }) => ({ type: 'sync', id, name })

export const lostRights =
  'The owner of this sync can no longer read its environment: transfer the sync to a service account that can, or have someone who can go through its steps again.'

/**
 * Admins of its environment see a sync. One whose environment is not chosen yet, or was deleted, is visible in the whole
 * project.
 */
export const isSyncVisible = (access: ProjectAccess, { environmentId }: SyncRecord): boolean =>
  environmentId === null ||
  !access.snapshot.environments.has(environmentId) ||
  reachesEnvironments(inRole(access, 'admin'), [environmentId])
