/** Finds secrets that the caller may see. */
import { Failure } from '../../failure.ts'
import type { SecretRecord } from '../../store/secret/secret.ts'
import { ownersSeen } from '../../store/secret/value.ts'
import type { Store } from '../../store/store.ts'
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

const none: ReadonlySet<string> = new Set()

/** Secrets that do not exist for a caller who reaches only part of the project, as they have no value within reach. */
export async function findUnseen(
  ctx: Context,
  access: ProjectAccess,
  secretIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (reachesProject(access.reach, access.project)) return none
  const unseen = await listUnseen(
    ctx.store,
    secretIds.map((secretId) => ({ ctx, access, secretId })),
  )
  return new Set(unseen.map(({ secretId }) => secretId))
}

/** One check of a batch: may this caller see this secret? All secrets of a batch belong to the same project. */
type Look = { readonly ctx: Context; readonly access: ProjectAccess; readonly secretId: string }

/** The checks whose caller does not see the secret. One query serves the whole batch and loads no value. */
export async function listUnseen<One extends Look>(
  { secretValues }: Store,
  looks: readonly One[],
): Promise<readonly One[]> {
  const partial = looks.filter(({ access: { reach, project } }) => !reachesProject(reach, project))
  if (partial.length === 0) return partial
  const sights = new Map(partial.map(({ access, ctx }) => [access, sightOf(ctx, access)]))
  const distinct = (of: (sight: Sight) => Iterable<string>) => [
    ...new Set([...sights.values()].flatMap((s) => [...of(s)])),
  ]
  const places = await secretValues.listPlacesOf(
    distinct(({ environmentIds }) => environmentIds),
    [...new Set(partial.map(({ secretId }) => secretId))],
    distinct(({ ownerIds }) => ownerIds),
  )
  const placesOf = Map.groupBy(places, ({ secretId }) => secretId)
  return partial.filter(({ access, secretId }) => {
    const sight = sights.get(access)
    return !placesOf
      .get(secretId)
      ?.some(({ environmentId, ownerId }) => sight?.environmentIds.has(environmentId) && sight.ownerIds.has(ownerId))
  })
}

type Sight = { readonly environmentIds: ReadonlySet<string>; readonly ownerIds: ReadonlySet<string> }

/** The environments that the caller reaches, and the owners whose values the caller sees there. */
function sightOf(ctx: Context, { reach, project }: ProjectAccess): Sight {
  return {
    environmentIds: new Set(reachedEnvironments(reach, project).map(({ id }) => id)),
    ownerIds: new Set(ownersSeen(personalOwner(ctx))),
  }
}
