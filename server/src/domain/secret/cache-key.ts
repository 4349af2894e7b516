/** Cache key of a read: the caller, the requested values, and how they are shown. */
import type { SecretListQuery } from '@coffer/contract/secret'
import type { ProjectAccess } from '../access/access.ts'
import { grantOf } from '../actor.ts'
import type { PicturedEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { personalOwner } from './environment.ts'

type Question = {
  readonly who: string
  readonly ownerId: string
  readonly projectId: string
  readonly where: string
  readonly key: string
  readonly text: string
}

/**
 * Requests with the same URL share one query object, so its last cache key is reused. Hashing a new string would take
 * longer than the cache lookup itself.
 */
const lastQuestions = new WeakMap<SecretListQuery, Question>()

export function questionOf(
  ctx: Context,
  access: ProjectAccess,
  query: SecretListQuery,
  environments: readonly PicturedEnvironment[],
  isChosen: boolean,
  key = '',
): string {
  const { credential, userId } = ctx.actor
  const who = grantOf(credential)?.id ?? `user ${userId}`
  const ownerId = personalOwner(ctx)
  const projectId = access.project.id
  const where = environments.map(({ id }) => id).join()
  const last = lastQuestions.get(query)
  const isSame = last?.who === who && last.ownerId === ownerId && last.projectId === projectId
  if (isSame && last.where === where && last.key === key) return last.text
  const { resolve, onUnresolved, view, q } = query
  const text = `${who} ${ownerId} ${projectId} ${where} ${isChosen} ${key} ${resolve} ${onUnresolved} ${view} ${q}`
  lastQuestions.set(query, { who, ownerId, projectId, where, key, text })
  return text
}
