/** Finds secrets that the caller may see. */
import { Failure } from '../../failure.ts'
import type { SecretRecord } from '../../store/secret/secret.ts'
import { ownersSeen } from '../../store/secret/value.ts'
import { type ProjectAccess, reachedEnvironments } from '../access/access.ts'
import type { Context } from '../context.ts'
import { isId } from '../id.ts'
import { reachesProject } from '../scope.ts'
import { personalOwner } from './choose-environment.ts'
import { mayExist } from './name.ts'

/** Finds a secret by name or id. The two cannot collide, because names that look like ids are refused. */
export async function findSecret(ctx: Context, access: ProjectAccess, key: string): Promise<SecretRecord | undefined> {
  if (isId(key)) return ctx.store.secrets.findById(access.project.id, key.toLowerCase())
  return mayExist(key) ? ctx.store.secrets.findByName(access.project.id, key) : undefined
}

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

/** Secrets that do not exist for a caller who reaches only part of the project, as they have no value within reach. */
export async function findUnseen(
  ctx: Context,
  access: ProjectAccess,
  secretIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const { reach, project } = access
  if (secretIds.length === 0 || reachesProject(reach, project)) return new Set()
  const environmentIds = reachedEnvironments(reach, project).map(({ id }) => id)
  const places = await ctx.store.secretValues.listPlacesOf(environmentIds, secretIds, ownersSeen(personalOwner(ctx)))
  const seen = new Set(places.map(({ secretId }) => secretId))
  return new Set(secretIds.filter((id) => !seen.has(id)))
}
