/** Drops cached data that a change made stale. */
import { type ChangeSubject, readEnvironmentSubject } from '../../store/change.ts'
import type { Services } from '../context.ts'

export type Caches = Pick<Services, 'snapshots' | 'credentials' | 'environmentVersions' | 'counts' | 'setupCodeFile'>

export function invalidateAll({ snapshots, credentials, environmentVersions, counts }: Caches): void {
  snapshots.clear()
  credentials.clear()
  environmentVersions.advanceAll()
  counts.clear()
}

export function invalidate(services: Caches, subject: ChangeSubject, id: string): void {
  if (subject === 'workspace') {
    services.snapshots.drop(id)
    services.counts.drop(id)
    // A workspace belongs to somebody, so the first account exists.
    services.setupCodeFile.remove()
  }
  if (subject === 'environment') {
    const { workspaceId, environmentId } = readEnvironmentSubject(id)
    services.environmentVersions.advance(environmentId)
    services.counts.drop(workspaceId)
  }
  if (subject === 'user') services.credentials.dropUser(id)
  if (subject === 'keyring') {
    services.credentials.clear()
    // A workspace snapshot loaded before this node knew the new root key may lack rows that only that key can verify.
    services.snapshots.clear()
  }
}
