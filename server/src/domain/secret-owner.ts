/** What changes of a secret as a whole have in common: finding it, being allowed to, and saying so. */
import { Failure } from '../failure.ts'
import type { SecretRecord } from '../store/secret.ts'
import { type ProjectAccess, reachedEnvironments } from './access.ts'
import { record } from './audit.ts'
import type { Context, WriteContext } from './context.ts'
import { reachesProject } from './scope.ts'
import { findSecret } from './secret.ts'
import { personalOwner } from './secret-environment.ts'

export async function requireSecret(
  ctx: Context,
  access: ProjectAccess,
  key: string,
  absence?: string,
): Promise<SecretRecord> {
  const secret = await findSecret(ctx, access, key)
  if (!secret || secret.trashedAt !== null) throw new Failure('notFound', absence)
  if ((await findUnseen(ctx, access, [secret.id])).size > 0) throw new Failure('notFound', absence)
  return secret
}

const none: ReadonlySet<string> = new Set()

/** What has no value within reach does not exist for those who reach only a part of the project: which of these do not. */
export async function findUnseen(
  ctx: Context,
  { reach, project }: ProjectAccess,
  secretIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (reachesProject(reach, project)) return none
  const environmentIds = reachedEnvironments(reach, project).map(({ id }) => id)
  const rows = await ctx.store.secretValues.listOf(environmentIds, secretIds, personalOwner(ctx))
  const seen = new Set(rows.flatMap(({ secretId, sealed }) => (sealed === null ? [] : [secretId])))
  return new Set(secretIds.filter((id) => !seen.has(id)))
}

export function recordSecret(
  ctx: WriteContext,
  access: ProjectAccess,
  action: 'UPDATE' | 'DELETE',
  secret: SecretRecord,
  after: Record<string, unknown>,
): Promise<void> {
  const entity = { type: 'secret', id: secret.id, name: secret.name }
  return record(ctx, { chain: access.picture.workspace.id, action, entity, projectId: access.project.id, after })
}

export function requireWholeProject(access: ProjectAccess, what: string): void {
  if (!reachesProject(access.reach, access.project)) {
    throw new Failure(
      'forbidden',
      `Your scope holds only a part of this project: you cannot ${what}; name an environment.`,
    )
  }
}
