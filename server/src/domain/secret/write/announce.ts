import { environmentSubject } from '../../../store/change.ts'
import type { ProjectAccess } from '../../access/access.ts'
import { withStoredEnvironments } from '../../access/stored-environment.ts'
import type { WriteContext } from '../../context.ts'
import { announce } from '../../transaction.ts'

/** For changes that show in every environment of the project, such as a new name or note. */
export async function announceEverywhere(ctx: WriteContext, access: ProjectAccess): Promise<void> {
  const { project } = await withStoredEnvironments(ctx, access)
  announceSecrets(
    ctx,
    access,
    project.environments.map(({ id }) => id),
  )
}

export function announceSecrets(ctx: WriteContext, access: ProjectAccess, environmentIds: Iterable<string>): void {
  const { workspace } = access.snapshot
  for (const id of new Set(environmentIds)) announce(ctx, 'environment', environmentSubject(workspace.id, id))
}
