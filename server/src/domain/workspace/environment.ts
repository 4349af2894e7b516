import type { Environment, EnvironmentChange, NewEnvironment } from '@coffer/contract/environment'
import type { EnvironmentPath, ProjectPath } from '@coffer/contract/field'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { EnvironmentRow } from '../../store/workspace/environment.ts'
import { reachedEnvironments, requireEnvironment, requireProject } from '../access/access.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { announce, inTransaction } from '../transaction.ts'

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'environment', id, name })

export async function listEnvironments(ctx: Context, path: ProjectPath): Promise<Environment[]> {
  const { project, reach, snapshot } = await requireProject(ctx, path, 'environment:read')
  const counts = await ctx.counts.get(snapshot.workspace.id)
  return reachedEnvironments(reach, project).map(({ id, name, updatedAt, hasPersonalOverrides }) => ({
    id,
    name,
    totalSecrets: counts?.get(id)?.count ?? 0,
    updatedAt: counts?.get(id)?.updatedAt ?? updatedAt,
    hasPersonalOverrides,
  }))
}

export async function createEnvironment(
  ctx: Context,
  path: ProjectPath,
  body: NewEnvironment,
): Promise<{ success: boolean; id: string }> {
  const { project, snapshot } = await requireProject(ctx, path, 'environment:create')
  const workspaceId = snapshot.workspace.id
  const at = ctx.now()
  const environment = {
    id: newId(),
    workspaceId,
    projectId: project.id,
    name: body.name,
    hasPersonalOverrides: body.hasPersonalOverrides ?? false,
    createdAt: at,
    updatedAt: at,
  }
  await inTransaction(ctx, workspaceId, async (ctx) => {
    // Checked again under the workspace lock: the project may have just been deleted.
    if (!(await ctx.store.projects.find(project.id, workspaceId))) throw new Failure('notFound')
    if (!(await ctx.store.environments.insert(environment))) throw nameTaken(environment.name)
    const place = { projectId: project.id, environmentId: environment.id }
    const after = { name: environment.name, hasPersonalOverrides: environment.hasPersonalOverrides }
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(environment), ...place, after })
    announce(ctx, 'workspace', workspaceId)
  })
  return { success: true, id: environment.id }
}

export async function updateEnvironment(ctx: Context, path: EnvironmentPath, change: EnvironmentChange): Promise<void> {
  const { environment, project, snapshot } = await requireEnvironment(ctx, path, 'environment:write')
  const workspaceId = snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    // Uses the stored row: fields that this change omits may have just changed.
    const current = await requireStored(ctx, environment.id, workspaceId)
    const before = { name: current.name, hasPersonalOverrides: current.hasPersonalOverrides }
    const after = { ...before, ...change }
    const next = { ...current, ...after, updatedAt: ctx.now() }
    if (!(await ctx.store.environments.update(next))) throw nameTaken(after.name)
    const place = { projectId: project.id, environmentId: environment.id }
    record(ctx, { chain: workspaceId, action: 'UPDATE', entity: entity(current), ...place, before, after })
    announce(ctx, 'workspace', workspaceId)
  })
}

export async function deleteEnvironment(ctx: Context, path: EnvironmentPath): Promise<void> {
  const { environment, project, snapshot } = await requireEnvironment(ctx, path, 'environment:write')
  const workspaceId = snapshot.workspace.id
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await requireStored(ctx, environment.id, workspaceId)
    const place = { projectId: project.id, environmentId: environment.id }
    await endUses(ctx, workspaceId, place)
    ctx.store.environments.remove(environment.id, workspaceId)
    const before = { name: current.name }
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(current), ...place, before })
    announce(ctx, 'workspace', workspaceId)
  })
}

/** Revokes the shares and deletes the syncs of an environment that is being deleted. */
export async function endUses(
  ctx: WriteContext,
  workspaceId: string,
  place: { readonly projectId: string; readonly environmentId: string },
): Promise<void> {
  ctx.store.shares.revokeFrom(place.environmentId, workspaceId, ctx.now())
  for (const { id, name } of await ctx.store.syncs.removeOf(place.environmentId, workspaceId)) {
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: { type: 'sync', id, name }, ...place })
  }
}

/** Checked again under the workspace lock: the row in the workspace snapshot may have just been deleted. */
async function requireStored(ctx: WriteContext, id: string, workspaceId: string): Promise<EnvironmentRow> {
  const environment = await ctx.store.environments.find(id, workspaceId)
  if (!environment) throw new Failure('notFound')
  return environment
}

function nameTaken(name: string): Failure {
  return new Failure('conflict', `An environment named "${name}" already exists.`)
}
