/** Drops cached data that a change made stale. */
import { type ChangeSubject, readEnvironmentSubject } from '../../store/change.ts'
import type { Services } from '../context.ts'

export type Memories = Pick<Services, 'pictures' | 'credentials' | 'epochs' | 'counts'>

export function forgetAll({ pictures, credentials, epochs, counts }: Memories): void {
  pictures.clear()
  credentials.clear()
  epochs.advanceAll()
  counts.clear()
}

export function forget(services: Memories, subject: ChangeSubject, id: string): void {
  if (subject === 'workspace') {
    services.pictures.drop(id)
    services.counts.drop(id)
  }
  if (subject === 'environment') {
    const { workspaceId, environmentId } = readEnvironmentSubject(id)
    services.epochs.advance(environmentId)
    services.counts.drop(workspaceId)
  }
  if (subject === 'user') services.credentials.dropUser(id)
  if (subject === 'keyring') {
    services.credentials.clear()
    // A workspace snapshot loaded before this node knew the new root key may lack rows that only that key can verify.
    services.pictures.clear()
  }
}
