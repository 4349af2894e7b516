/** What ends when a member or a service account is removed, and what stays of all that a person made. */
import type { Removal } from '@coffer/contract/member'
import { ownerOf } from '../../store/owner.ts'
import { type Invite, isOpen } from '../../store/workspace/invite.ts'
import type { Context } from '../context.ts'
import { isEnded, lastUseOf } from '../credential/token.ts'
import { iso, maybeIso } from '../time.ts'

const nothingStays: Removal['stays'] = { serviceAccounts: [], tokens: [], identities: [], syncs: [], shares: [] }
export const nothingEnds: Removal = {
  success: true,
  tokens: [],
  syncs: [],
  shares: 0,
  invites: [],
  personalValues: 0,
  stays: nothingStays,
}

/** Changes nothing. `ownerId` is that of a user or of a service account. */
export async function surveyRemoval(ctx: Context, ownerId: string, workspaceId: string): Promise<Removal> {
  const tokens = await ctx.store.tokens.listOf(ownerId, workspaceId)
  const living = tokens.filter((token) => !isEnded(token, ctx.now()))
  const syncs = await ctx.store.syncs.listLiveOf(ownerId, workspaceId)
  return {
    success: true,
    tokens: living.map((token) => {
      const { id, name, permission, scope, mayAdminister } = token
      const lastUsedAt = maybeIso(lastUseOf(ctx, token).at)
      return { id, name, permission, scope, mayAdminister, expiresAt: maybeIso(token.expiresAt), lastUsedAt }
    }),
    syncs: syncs.map(({ id, name, projectId }) => ({ id, name, projectId })),
    shares: await ctx.store.shares.countOf(ownerId, workspaceId),
    personalValues: await ctx.store.personalValues.countOf(ownerId, workspaceId),
    invites: [],
    stays: nothingStays,
  }
}

/** Like `surveyRemoval`, for a person: with the open invites that end, and what stays unless somebody ends it. */
export async function surveyPerson(ctx: Context, userId: string, workspaceId: string): Promise<Removal> {
  const invites = await listOpenInvites(ctx, userId, workspaceId)
  return {
    ...(await surveyRemoval(ctx, userId, workspaceId)),
    invites: invites.map(({ id, email, expiresAt }) => ({ id, email, expiresAt: iso(expiresAt) })),
    stays: await listStaying(ctx, userId, workspaceId),
  }
}

/** The links of these are known to the person, who sent them. */
export async function listOpenInvites(ctx: Context, userId: string, workspaceId: string): Promise<Invite[]> {
  const invites = await ctx.store.invites.list(workspaceId)
  return invites.filter((invite) => invite.invitedBy === userId && isOpen(invite, ctx.now()))
}

async function listStaying(ctx: Context, userId: string, workspaceId: string): Promise<Removal['stays']> {
  const { serviceAccounts, tokens, oidc, syncs, stayingShares } = ctx.store
  const { accounts } = await serviceAccounts.list(workspaceId)
  const serviceTokens = await tokens.listOfServiceAccounts(workspaceId)
  const living = serviceTokens.filter((token) => !isEnded(token, ctx.now()))
  const nameOf = new Map(accounts.map(({ id, name }) => [id, name]))
  const identities = await oidc.list(workspaceId)
  return {
    serviceAccounts: accounts
      .filter(({ createdBy }) => createdBy === userId)
      .map(({ id, name }) => ({
        id,
        name,
        tokens: living.filter(({ serviceAccountId }) => serviceAccountId === id).length,
      })),
    tokens: living
      .filter(({ createdBy }) => createdBy === userId)
      .map((token) => {
        const { id, name, expiresAt } = token
        const serviceAccountId = ownerOf(token)
        const serviceAccountName = nameOf.get(serviceAccountId) ?? ''
        const lastUsedAt = maybeIso(lastUseOf(ctx, token).at)
        return { id, name, serviceAccountId, serviceAccountName, expiresAt: maybeIso(expiresAt), lastUsedAt }
      }),
    identities: identities
      .filter(({ createdBy }) => createdBy === null || createdBy === userId)
      .map(({ id, name, issuer, createdBy }) => ({ id, name, issuer, isMakerKnown: createdBy !== null })),
    syncs: (await syncs.listMadeBy(userId, workspaceId)).map(({ id, name, projectId }) => ({ id, name, projectId })),
    shares: (await stayingShares.list(userId, workspaceId, ctx.now())).map((share) => ({
      ...share,
      expiresAt: iso(share.expiresAt),
    })),
  }
}
