/** How the audit trail names a sync, and who sees it. */
import type { SyncRecord } from '../../store/sync/sync.ts'
import { inRole, type ProjectAccess, reachesEnvironments } from '../access/access.ts'

export const syncEntity = ({ id, name }: { id: string; name: string }) => ({ type: 'sync', id, name })

/**
 * Admins of its environment see a sync. One whose environment is not chosen yet, or was deleted, is visible in the whole
 * project.
 */
export const isSyncVisible = (access: ProjectAccess, { environmentId }: SyncRecord): boolean =>
  environmentId === null ||
  !access.snapshot.environments.has(environmentId) ||
  reachesEnvironments(inRole(access, 'admin'), [environmentId])
