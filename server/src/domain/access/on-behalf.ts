/** What a share or a sync may still do in the name of whoever created it. */
import type { Scope } from '@coffer/contract/field'
import { ownerOf } from '../../store/owner.ts'
import type { Context } from '../context.ts'
import { reachesEnvironment, toScopeSet } from '../scope.ts'
import { type EnvironmentAccess, reachesEnvironments, seesProject } from './access.ts'
import { rules } from './permission.ts'

type SharePlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly createdBy: string
  readonly serviceAccountId: string | null
  readonly environmentIds: readonly string[]
}

/** A share opens only while its creator could still create it: lost rights apply to readers of the link too. */
export async function isStillShared(ctx: Context, share: SharePlace): Promise<boolean> {
  const snapshot = await ctx.snapshots.get(share.workspaceId)
  const maker = snapshot?.principals.get(ownerOf(share))
  const project = snapshot?.projects.get(share.projectId)
  if (!snapshot || !maker || !project) return false
  const reach = [maker.rights[rules['share:write'].role]]
  return seesProject(reach, project) && reachesEnvironments({ snapshot, reach }, share.environmentIds)
}

type GrantPlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly environmentId: string | null
  readonly createdBy: string
}

/** For work on behalf of a person or a service account: limited to what they may read now and could read when they set it up. */
export async function findGranted(
  ctx: Context,
  place: GrantPlace,
  scopes: readonly Scope[],
): Promise<EnvironmentAccess | undefined> {
  const snapshot = await ctx.snapshots.get(place.workspaceId)
  const grantor = snapshot?.principals.get(place.createdBy)
  const project = snapshot?.projects.get(place.projectId)
  const environment = snapshot?.environments.get(place.environmentId ?? '')
  if (!snapshot || !grantor || !project || environment?.projectId !== project.id) return undefined
  const { member, rights } = grantor
  const reach = [rights.member, ...scopes.map(toScopeSet)]
  if (!reachesEnvironment(reach, project, environment)) return undefined
  return { snapshot, member, rights, reach, project, environment }
}
