/** What a share or a sync may still do in the name of whoever created it. */
import type { Scope } from '@coffer/contract/field'
import { ownerOf } from '../../store/owner.ts'
import type { ShareRecord } from '../../store/share/share.ts'
import type { Context } from '../context.ts'
import { shareEnd } from '../policy.ts'
import { reachesEnvironment, toScopeSet } from '../scope.ts'
import { type EnvironmentAccess, reachesEnvironments, seesProject } from './access.ts'
import { rules } from './permission.ts'

type SharePlace = Pick<
  ShareRecord,
  'workspaceId' | 'projectId' | 'createdBy' | 'serviceAccountId' | 'environmentIds' | 'kind' | 'createdAt' | 'expiresAt'
>

/**
 * When a share ends; undefined if it does not open. It opens only while its creator could still create it: lost rights,
 * and the policy of the workspace, apply to readers of the link too.
 */
export async function findShareEnd(ctx: Context, share: SharePlace): Promise<number | undefined> {
  const snapshot = await ctx.snapshots.get(share.workspaceId)
  const maker = snapshot?.principals.get(ownerOf(share))
  const project = snapshot?.projects.get(share.projectId)
  if (!snapshot || !maker || !project) return undefined
  const reach = [maker.rights[rules['share:write'].role]]
  if (!seesProject(reach, project) || !reachesEnvironments({ snapshot, reach }, share.environmentIds)) return undefined
  return shareEnd(snapshot.policy, share)
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
