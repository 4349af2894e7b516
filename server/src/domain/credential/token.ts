/** Listing, rotating and revoking tokens. */
import type { IdPath, Permission, WorkspacePath } from '@coffer/contract/field'
import type { IssuedToken, Token, TokenListQuery, TokenRotation } from '@coffer/contract/token'
import { Failure } from '../../failure.ts'
import { ownerOf } from '../../store/owner.ts'
import type { TokenRecord } from '../../store/token.ts'
import { type Access, mayManageAll, reauthorise, requireWorkspace } from '../access/access.ts'
import { isScopeWithin, reachedScope } from '../access/scope-grant.ts'
import { requireConfirmation } from '../account/confirmation.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { decodeIdCursor, encodeCursor } from '../cursor.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { iso, maybeIso, secondMs } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { newValue, prefixOf, toIssued, tokenEntity } from './token-issue.ts'

/** A page may hold fewer tokens than its limit, because those that the caller may not see are filtered out. */
export async function listTokens(ctx: Context, path: WorkspacePath, query: TokenListQuery): Promise<Page<Token>> {
  const access = await requireWorkspace(ctx, path, 'token:read')
  const whose = mayManageAll(access) ? null : ctx.actor.userId
  const { tokens, next } = await ctx.store.tokens.list(access.snapshot.workspace.id, whose, {
    // Sorts after every id, so that the first page starts with the newest token.
    before: query.cursor === undefined ? 'z' : decodeIdCursor(query.cursor),
    limit: query.limit ?? defaultPageLength,
  })
  const seen = tokens.filter((token) => seesToken(ctx, access, token))
  return {
    items: await toTokens(ctx, access, seen),
    nextCursor: next === undefined ? undefined : encodeCursor(next),
  }
}

/**
 * Admins of the whole workspace see every token, other people see their own. A token sees itself and those tokens of
 * its owner whose scope lies within its own.
 */
function seesToken(ctx: Context, access: Access, token: TokenRecord): boolean {
  if (mayManageAll(access)) return true
  if (ownerOf(token) !== ctx.actor.userId) return false
  const { credential } = ctx.actor
  return !('token' in credential) || credential.token.id === token.id || isScopeWithin(access, token.scope)
}

export async function rotateToken(ctx: Context, path: IdPath, body: TokenRotation): Promise<IssuedToken> {
  const { token, workspaceId, access } = await requireManagedToken(ctx, path)
  if (token.mayAdminister) {
    requireMayRenew(ctx, token)
    await requireConfirmation(ctx, body, { action: 'ROTATE', entity: tokenEntity(token) })
  }
  const graceMs = (body.graceSeconds ?? 0) * secondMs
  const { value, ...stored } = newValue(ctx)
  const rotated = await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await ctx.store.tokens.findForChange(token.id, workspaceId)
    if (!current) throw new Failure('notFound')
    await requireMayHold(ctx, access, current)
    if (current.revokedAt !== null) throw new Failure('conflict', 'This token is revoked: create a new one.')
    if (current.expiresAt !== null && current.expiresAt <= ctx.now()) {
      throw new Failure('conflict', 'This token has expired: create a new one.')
    }
    const next: TokenRecord = {
      ...current,
      ...stored,
      previousHash: graceMs > 0 ? current.hash : null,
      previousHashRootId: graceMs > 0 ? current.hashRootId : null,
      previousUntil: graceMs > 0 ? ctx.now() + graceMs : null,
      generation: current.generation + 1,
    }
    if (!(await ctx.store.tokens.update(next, current))) throw new Failure('conflict')
    const after = { graceSeconds: body.graceSeconds ?? 0, prefix: prefixOf(ctx, next) }
    record(ctx, { chain: workspaceId, action: 'ROTATE', entity: tokenEntity(next), after })
    announce(ctx, 'workspace', workspaceId)
    return next
  })
  return toIssued(ctx, rotated, value)
}

export async function revokeToken(ctx: Context, path: IdPath): Promise<void> {
  const { token, workspaceId } = await requireManagedToken(ctx, path)
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await ctx.store.tokens.findForChange(token.id, workspaceId)
    // The token was deleted together with its owner.
    if (!current) throw new Failure('notFound')
    if (current.revokedAt !== null) return
    const revoked = {
      ...current,
      revokedAt: ctx.now(),
      previousHash: null,
      previousHashRootId: null,
      previousUntil: null,
    }
    // A use of the token during a root rotation re-hashes its row, and this update then matches nothing. The caller
    // must retry, as the token is not revoked yet.
    if (!(await ctx.store.tokens.update(revoked, current))) throw new Failure('unavailable')
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: tokenEntity(current) })
    announce(ctx, 'workspace', workspaceId)
  })
}

/**
 * People manage their own tokens, admins everyone's. A token manages only itself: the new value of another token could
 * carry more rights.
 */
async function requireManagedToken(
  ctx: Context,
  path: IdPath,
): Promise<{ token: TokenRecord; workspaceId: string; access: Access }> {
  const access = await requireWorkspace(ctx, path, 'workspace:read')
  const workspaceId = access.snapshot.workspace.id
  const token = await ctx.store.tokens.find(path.id.toLowerCase(), workspaceId)
  if (!token || !seesToken(ctx, access, token)) throw new Failure('notFound')
  await requireWorkspace(ctx, path, 'token:write')
  const { credential } = ctx.actor
  if ('token' in credential && credential.token.id !== token.id) {
    throw new Failure('forbidden', 'A token can rotate or revoke only itself.')
  }
  return { token, workspaceId, access }
}

/** The new value may administer too, so it takes what the first one took: the owner of the token, and a confirmation. */
function requireMayRenew({ actor }: Context, token: TokenRecord): void {
  if ('token' in actor.credential) {
    throw new Failure('forbidden', 'A token that may administer cannot rotate itself: sign in to rotate it.')
  }
  if (ownerOf(token) !== actor.userId) throw notYours()
}

const notYours = () => new Failure('forbidden', 'Only the creator of this token can rotate it; you can revoke it.')

/**
 * Rotating a token reveals its new value. An admin must not gain others' personal values or the owner's rights this
 * way, and a JWT or an old value, which expires soon, must not be exchanged for a lasting one.
 */
async function requireMayHold(ctx: WriteContext, access: Access, token: TokenRecord): Promise<void> {
  const current = await reauthorise(ctx, access, 'token:write')
  const { credential } = ctx.actor
  if ('token' in credential && (credential.type === 'jwt' || credential.generation !== token.generation)) {
    throw new Failure(
      'forbidden',
      'A token can rotate itself only with its current value, not with the previous one or a JWT.',
    )
  }
  if (ownerOf(token) === ctx.actor.userId) return
  if (!mayManageAll(current)) throw new Failure('notFound')
  // Admins may create tokens of a service account anyway.
  if (token.serviceAccountId !== null) return
  const maker = await ctx.store.members.findOfUser(token.createdBy, token.workspaceId)
  if (token.type === 'cli' || (maker?.isOwner && token.permission === 'read-write')) {
    throw notYours()
  }
}

/** The tokens as their list shows them, with the names of their owners. */
export async function toTokens(ctx: Context, access: Access, tokens: readonly TokenRecord[]): Promise<Token[]> {
  const people = tokens.filter(({ serviceAccountId }) => serviceAccountId === null).map(({ createdBy }) => createdBy)
  const addresses = await ctx.store.accounts.listAddressesOf([...new Set(people)])
  const { principals } = access.snapshot
  const nameOf = (ownerId: string) => principals.get(ownerId)?.serviceAccount?.name ?? addresses.get(ownerId) ?? ''
  return tokens.map((token) => toToken(ctx, access, token, nameOf(ownerOf(token))))
}

function toToken(ctx: Context, access: Access, token: TokenRecord, ownerName: string): Token {
  const permission: Permission = token.permission
  const ownerId = ownerOf(token)
  const { at, ip } = lastUseOf(ctx, token)
  return {
    id: token.id,
    name: token.name,
    prefix: prefixOf(ctx, token),
    permission,
    scope: reachedScope(access, token.scope),
    type: token.type,
    isOwner: ownerId === ctx.actor.userId,
    createdById: token.createdBy,
    ownerType: token.serviceAccountId === null ? 'user' : 'service',
    ownerId,
    ownerName,
    createdAt: iso(token.createdAt),
    expiresAt: maybeIso(token.expiresAt),
    lastUsedAt: maybeIso(at),
    lastUsedIp: ip,
    revokedAt: maybeIso(token.revokedAt),
    mayAdminister: token.mayAdminister,
    allowedIps: [...token.allowedIps],
  }
}

export const isEnded = ({ revokedAt, expiresAt }: TokenRecord, nowMs: number): boolean =>
  revokedAt !== null || (expiresAt !== null && expiresAt <= nowMs)

/** The last use may not be written to the store yet; another node may have seen the token more recently than this one. */
export function lastUseOf({ usage }: Context, token: TokenRecord): { at: number | null; ip: string | null } {
  const noted = usage.pendingToken(token.id)
  if (noted !== undefined && noted.at >= (token.lastUsedAt ?? 0)) return noted
  return { at: token.lastUsedAt, ip: token.lastUsedIp }
}
