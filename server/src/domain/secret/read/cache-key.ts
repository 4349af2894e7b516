/** Cache key of a read: the caller, the requested values, and how they are shown. */
import { grantOf } from '../../actor.ts'
import type { Context } from '../../context.ts'
import { personalOwner } from '../choose-environment.ts'
import type { Selection } from './selection.ts'

export function cacheKeyOf(ctx: Context, { access, environments, isChosen, query, key = '' }: Selection): string {
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
