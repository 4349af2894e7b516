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

/** Secrets that do not exist for a caller who reaches only part of the project, as they have no value within reach. */
export async function findUnseen(
  ctx: Context,
  access: ProjectAccess,
  secretIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const caller = { ctx, access }
  return (await findUnseenByEach(ctx.store, [caller], () => secretIds)).get(caller) ?? new Set()
}

type Caller = { readonly ctx: Context; readonly access: ProjectAccess }

/** `findUnseen` for several callers in one project. One query serves them all and loads no value. */
export async function findUnseenByEach<One extends Caller>(
  { secretValues }: Store,
  callers: readonly One[],
  secretIdsOf: (caller: One) => readonly string[],
): Promise<ReadonlyMap<One, ReadonlySet<string>>> {
  const looks = callers.flatMap((caller) => {
    const { reach, project } = caller.access
    if (reachesProject(reach, project)) return []
    const environmentIds = new Set(reachedEnvironments(reach, project).map(({ id }) => id))
    const ownerIds = new Set(ownersSeen(personalOwner(caller.ctx)))
    return [{ caller, secretIds: secretIdsOf(caller), environmentIds, ownerIds }]
  })
  const distinct = (of: (look: (typeof looks)[number]) => Iterable<string>) => [
    ...new Set(looks.flatMap((look) => [...of(look)])),
  ]
  const places = await secretValues.listPlacesOf(
    distinct(({ environmentIds }) => environmentIds),
    distinct(({ secretIds }) => secretIds),
    distinct(({ ownerIds }) => ownerIds),
  )
  const placesOf = Map.groupBy(places, ({ secretId }) => secretId)
  return new Map(
    looks.map(({ caller, secretIds, environmentIds, ownerIds }) => {
      const isSeen = (secretId: string) =>
        placesOf.get(secretId)?.some((place) => environmentIds.has(place.environmentId) && ownerIds.has(place.ownerId))
      return [caller, new Set(secretIds.filter((secretId) => !isSeen(secretId)))]
    }),
  )
}
