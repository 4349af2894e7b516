import { Failure } from '../failure.ts'
import type { SecretRecord } from '../store/secret.ts'
import type { RenameRow } from '../store/secret-value.ts'
import { type ProjectAccess, withStoredEnvironments } from './access.ts'
import { record } from './audit.ts'
import type { WriteContext } from './context.ts'
import { refuseCycles } from './secret-cycle.ts'
import { openValues } from './secret-read.ts'
import { announceEverywhere, type WriteOptions } from './secret-write.ts'

/**
 * Gives a secret another name: a revision of every environment in which it has a value. Whether it is now what its own value
 * refers to is asked by `refuseRenamedCycles`, once the request has done all that it does.
 */
export async function renameSecret(
  ctx: WriteContext,
  pictured: ProjectAccess,
  secret: SecretRecord,
  name: string,
  { revisions, message = '' }: Pick<WriteOptions, 'revisions' | 'message'>,
): Promise<void> {
  const access = await withStoredEnvironments(ctx, pictured)
  const { picture, project } = access
  const workspaceId = picture.workspace.id
  if (await ctx.store.secrets.findByName(project.id, name))
    throw new Failure('conflict', `These exist already: ${name}.`)
  const now = revisions.at
  await ctx.store.secrets.update({ ...secret, name, updatedAt: now })
  const rows = await ctx.store.secretValues.listOf(
    project.environments.map(({ id }) => id),
    [secret.id],
    '',
  )
  const renames: (RenameRow & { workspaceId: string })[] = []
  for (const { environmentId, sealed } of rows) {
    if (sealed === null) continue
    const revision = await revisions.take(environmentId, 0)
    const by = { createdAt: now, createdBy: ctx.actor.name, message }
    renames.push({
      environmentId,
      secretId: secret.id,
      revision,
      workspaceId,
      oldName: secret.name,
      newName: name,
      ...by,
    })
  }
  await ctx.store.secretValues.insertRenames(renames)
  await record(ctx, {
    chain: workspaceId,
    action: 'UPDATE',
    entity: { type: 'secret', id: secret.id, name },
    projectId: project.id,
    environmentIds: renames.map(({ environmentId }) => environmentId),
    before: { name: secret.name },
    after: { name },
  })
  await announceEverywhere(ctx, access)
}

/** Under their new names secrets may be what others refer to. What the same request wrote over or took away no longer counts. */
export async function refuseRenamedCycles(
  ctx: WriteContext,
  pictured: ProjectAccess,
  namesById: ReadonlyMap<string, string>,
): Promise<void> {
  if (namesById.size === 0) return
  const access = await withStoredEnvironments(ctx, pictured)
  const environmentIds = access.project.environments.map(({ id }) => id)
  // One after the other: their values are never held together.
  for (const [id, name] of namesById) {
    const rows = await ctx.store.secretValues.listOf(environmentIds, [id], '')
    const values = await openValues(ctx, access, rows, new Map([[id, name]]))
    const written = values.map(({ environmentId, value }) => ({ environmentId, key: name, value }))
    await refuseCycles(ctx, access, written, [], '')
  }
}
