/**
 * Rights outlive nothing: whoever waited, in whatever queue, is asked again for the credential and the rights that were
 * granted before the wait. Nothing is looked up while this node knows of no change.
 */

import type { Transaction } from '../../store/engine/sql.ts'
import type { Member } from '../../store/member.ts'
import type { Store } from '../../store/store.ts'
import { type Context, grantOf, type WriteContext } from '../context.ts'
import { hasExpired, requireLiving } from '../credential/credential.ts'
import { StartOver } from '../start-over.ts'
import type { Access } from './access.ts'

/** False while this node knows of no change to the credential or to what it was granted. */
export const mayHaveChanged = (ctx: Context): boolean => hasChanged(ctx, nothingPending)

/** After a wait outside of a transaction, and before an answer leaves. Undefined where nothing has changed. */
export function confirmRights(ctx: Context): Promise<void> | undefined {
  return mayHaveChanged(ctx) ? confirm(ctx) : undefined
}

/** While an answer is being sent, which cannot begin anew: it ends with the rights that it began by. */
export function confirmOngoing(ctx: Context): Promise<void> | undefined {
  return confirmRights(ctx)?.catch((error) => {
    throw error instanceof StartOver ? error.giveUp() : error
  })
}

/** Under the locks of a transaction: nothing is written, or recorded as seen, by rights that ended before. */
export async function confirmWithin(ctx: WriteContext): Promise<void> {
  if (hasChanged(ctx, ctx.transaction.scratch)) await confirm(ctx)
}

const confirmed: PromiseSettledResult<void> = { status: 'fulfilled', value: undefined }

/** For joint work: each caller has an outcome of its own. `store` is that of the transaction. */
export async function confirmEach(
  callers: readonly Context[],
  transaction: Transaction,
  store: Store,
): Promise<PromiseSettledResult<void>[]> {
  const outcomes: PromiseSettledResult<void>[] = []
  for (const ctx of callers) {
    if (hasChanged(ctx, transaction.scratch)) outcomes.push(...(await Promise.allSettled([confirm({ ...ctx, store })])))
    else outcomes.push(confirmed)
  }
  return outcomes
}

const nothingPending: ReadonlyMap<string, unknown> = new Map()

/** `pending` names what other changes of the same commit have announced. */
function hasChanged(ctx: Context, pending: ReadonlyMap<string, unknown>): boolean {
  const { credential, userId } = ctx.actor
  if (credential.type === 'none') return false
  if (hasExpired(ctx)) return true
  if ('sessionId' in credential && credential.generation !== ctx.credentials.generation) return true
  if ('sessionId' in credential && pending.has(`change:user:${userId}`)) return true
  const grant = grantOf(credential)
  if (grant) {
    const picture = ctx.pictures.peek(grant.workspaceId)
    const known = 'token' in credential ? picture?.tokens.peek(grant.id) : picture?.identities.peek(grant.id)
    if (known !== grant || pending.has(`change:workspace:${grant.workspaceId}`)) return true
  }
  return ctx.run.granted.some(({ picture }) => {
    const { id } = picture.workspace
    return ctx.pictures.peek(id) !== picture || pending.has(`change:workspace:${id}`)
  })
}

/** Of the store: the memory of this node does not show yet what the same commit changes. */
async function confirm(ctx: Context): Promise<void> {
  await requireLiving(ctx)
  // The same rights may have been granted by several calls.
  const granted = new Map(ctx.run.granted.map((access) => [access.picture.workspace.id, access]))
  for (const access of granted.values()) if (!(await isGrantedStill(ctx, access))) throw new StartOver()
}

/** A token's own scope never changes, and that of an identity only with its generation. */
async function isGrantedStill(ctx: Context, { picture, member }: Access): Promise<boolean> {
  const { workspace } = picture
  const scopes = [member.scope, grantOf(ctx.actor.credential)?.scope]
  if (ctx.actor.userId !== '') {
    const current = await ctx.store.members.findOfUser(ctx.actor.userId, workspace.id)
    if (!current || !isSame(current, member)) return false
  }
  // A project that moved to another team is reached by others from then on.
  if (scopes.every((scope) => !scope || scope.all || scope.teams.length === 0)) return true
  const projects = await ctx.store.projects.list(workspace.id)
  return projects.every(({ id, teamId }) => (picture.projects.get(id)?.teamId ?? teamId) === teamId)
}

const isSame = (a: Member, b: Member): boolean =>
  a.id === b.id && a.role === b.role && a.isOwner === b.isOwner && JSON.stringify(a.scope) === JSON.stringify(b.scope)
