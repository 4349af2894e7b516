/** What ends when a member or a service account is removed. */
import type { Removal } from '@coffer/contract/member'
import type { Context } from '../context.ts'
import { isEnded, lastUseOf } from '../credential/token.ts'
import { maybeIso } from '../time.ts'

export const nothingEnds: Removal = { success: true, tokens: [], syncs: [], shares: 0, personalValues: 0 }

/** Changes nothing. `ownerId` is that of a user or of a service account. */
export async function surveyRemoval(ctx: Context, ownerId: string, workspaceId: string): Promise<Removal> {
  const tokens = await ctx.store.tokens.listOf(ownerId, workspaceId)
  const living = tokens.filter((token) => !isEnded(token, ctx.now()))
  const syncs = await ctx.store.syncs.listLiveOf(ownerId, workspaceId)
  return {
    success: true,
    tokens: living.map((token) => {
      const { id, name, permission, scope } = token
      const lastUsedAt = maybeIso(lastUseOf(ctx, token).at)
      return { id, name, permission, scope, expiresAt: maybeIso(token.expiresAt), lastUsedAt }
    }),
    syncs: syncs.map(({ id, name, projectId }) => ({ id, name, projectId })),
    shares: await ctx.store.shares.countOf(ownerId, workspaceId),
    personalValues: await ctx.store.personalValues.countOf(ownerId, workspaceId),
  }
}
