/** Shared steps of changes to a whole secret: find it, check that the caller may see it, and record the change. */
import { Failure } from '../../failure.ts'
import type { SecretRecord } from '../../store/secret/secret.ts'
import { ownersSeen } from '../../store/secret/value.ts'
import type { Store } from '../../store/store.ts'
import { type ProjectAccess, reachedEnvironments } from '../access/access.ts'
import { record, recordAll } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { reachesProject } from '../scope.ts'
import { findSecret } from './answer.ts'
import { personalOwner } from './environment.ts'

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

export function recordSecret(
  ctx: WriteContext,
  access: ProjectAccess,
  action: 'UPDATE' | 'DELETE',
  secret: SecretRecord,
  after: Record<string, unknown>,
  environmentIds: readonly string[] = [],
): Promise<void> {
  return record(ctx, { ...eventOf(access, action, secret), environmentIds, after })
}

/** Records the same action for many secrets, as one row of the audit trail. */
export function recordSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  action: 'UPDATE' | 'DELETE',
  secrets: readonly SecretRecord[],
  afterOf: (secret: SecretRecord) => Record<string, unknown>,
): Promise<void> {
  return recordAll(
    secrets.map((secret) => ({ ctx, event: { ...eventOf(access, action, secret), after: afterOf(secret) } })),
  )
}

function eventOf({ picture, project }: ProjectAccess, action: 'UPDATE' | 'DELETE', { id, name }: SecretRecord) {
  return { chain: picture.workspace.id, action, entity: { type: 'secret', id, name }, projectId: project.id }
}

export function requireWholeProject(access: ProjectAccess, what: string): void {
  if (!reachesProject(access.reach, access.project)) {
    throw new Failure(
      'forbidden',
      `Your scope covers only part of this project: you cannot ${what}; name an environment.`,
    )
  }
}
