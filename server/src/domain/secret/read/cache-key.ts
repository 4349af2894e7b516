/** Cache key of a read: the caller, the requested values, and how they are shown. */
import type { SecretListQuery } from '@coffer/contract/secret'
import type { ProjectAccess } from '../../access/access.ts'
import { grantOf } from '../../actor.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { personalOwner } from '../choose-environment.ts'

export function cacheKeyOf(
  ctx: Context,
  access: ProjectAccess,
  query: SecretListQuery,
  environments: readonly SnapshotEnvironment[],
  isChosen: boolean,
  key = '',
): string {
  const { credential, userId } = ctx.actor
  const who = grantOf(credential)?.id ?? `user ${userId}`
  const ownerId = personalOwner(ctx)
  const projectId = access.project.id
  const where = environments.map(({ id }) => id).join()
  const { resolve, onUnresolved, view, q } = query
  // The search comes last and is any text; a read without one must not look like a search for "undefined".
  const search = q === undefined ? '' : ` ${q}`
  return `${who} ${ownerId} ${projectId} ${where} ${isChosen} ${key} ${resolve} ${onUnresolved} ${view}${search}`
}
