import type { IdPath, Permission, WorkspacePath } from '@coffer/contract/field'
import {
  type IssuedToken,
  maxTokens,
  type NewCliToken,
  type NewToken,
  type Token,
  type TokenListQuery,
  type TokenRotation,
} from '@coffer/contract/token'
import { newId } from '../../crypto/id.ts'
import { createBearer, hashBearer, tokenPrefix, withTokenWord } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import type { TokenRecord } from '../../store/token.ts'
import { type Access, mayManageAll, reauthorise, requireWorkspace } from '../access/access.ts'
import { requireTokenLife } from '../access/policy.ts'
import { hasRoleIn, isScopeWithin, reachedScope, requireScopeWithin } from '../access/scope-grant.ts'
import { checkAddresses } from '../allowed-address.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { decodeIdCursor, encodeCursor } from '../cursor.ts'
import { holdsRole } from '../grant.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { reachesEnvironment } from '../scope.ts'
import { dayMs, hourMs, iso, maybeIso, secondMs } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'

const lifetimesMs: Record<NewToken['expiresIn'], number | null> = {
  '24h': 24 * hourMs,
  '5d': 5 * dayMs,
  '30d': 30 * dayMs,
  '60d': 60 * dayMs,
  '3m': 91 * dayMs,
  '6m': 182 * dayMs,
  '1y': 365 * dayMs,
  never: null,
}
const cliLifetimeMs = 8 * hourMs
const visiblePrefixLength = tokenPrefix.length + 4

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'token', id, name })

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
    items: seen.map((token) => toToken(ctx, access, token)),
    nextCursor: next === undefined ? undefined : encodeCursor(next),
  }
}

/**
 * Admins of the whole workspace see every token, other people see their own. A token sees itself and those tokens of
 * its creator whose scope lies within its own.
 */
function seesToken(ctx: Context, access: Access, token: TokenRecord): boolean {
  if (mayManageAll(access)) return true
  if (token.createdBy !== ctx.actor.userId) return false
  const { credential } = ctx.actor
  return !('token' in credential) || credential.token.id === token.id || isScopeWithin(access, token.scope)
}

export async function createToken(ctx: Context, path: WorkspacePath, body: NewToken): Promise<IssuedToken> {
  const access = await requireWorkspace(ctx, path, 'token:create')
  const needsDeveloper = body.permission === 'read-write'
  if (needsDeveloper && !holdsRole(access.rights, 'developer')) {
    throw new Failure('forbidden', 'A read-write token needs the role developer: a member can create only read tokens.')
  }
  const scope = requireScopeWithin(access, body.scope)
  if (needsDeveloper && !hasRoleIn(access, 'developer', scope)) {
    throw new Failure(
      'forbidden',
      'You can only read in this scope: a read-write token needs the role developer there.',
    )
  }
  const lifetimeMs = lifetimesMs[body.expiresIn]
  return issueToken(ctx, access, {
    name: body.name,
    type: 'static',
    permission: body.permission,
    scope,
    allowedIps: checkAddresses(body.allowedIps ?? []),
    expiresAt: lifetimeMs === null ? null : ctx.now() + lifetimeMs,
  })
}

export async function createCliToken(
  ctx: Context,
  path: WorkspacePath,
  body: NewCliToken,
): Promise<{ token: string; expiresAt: string }> {
  const access = await requireWorkspace(ctx, path, 'token:create')
  const environment = access.snapshot.environments.get(body.environmentId.toLowerCase())
  const project = environment && access.snapshot.projects.get(environment.projectId)
  if (!environment || !project || !reachesEnvironment(access.reach, project, environment)) {
    throw new Failure('notFound')
  }
  const expiresAt = ctx.now() + cliLifetimeMs
  const { token } = await issueToken(ctx, access, {
    name: `cli ${project.slug}/${environment.name}`,
    type: 'cli',
    permission: 'read',
    scope: { all: false, teams: [], projects: [], environments: [environment.id] },
    allowedIps: [],
    expiresAt,
  })
  return { token, expiresAt: iso(expiresAt) }
}

export async function rotateToken(ctx: Context, path: IdPath, body: TokenRotation): Promise<IssuedToken> {
  const { token, workspaceId, access } = await requireManagedToken(ctx, path)
  const graceMs = (body.graceSeconds ?? 0) * secondMs
  const value = createBearer(tokenPrefix)
  const root = ctx.keys.keyring.active
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
      prefix: value.slice(0, visiblePrefixLength),
      hash: hashBearer(root, value),
      hashRootId: root.id,
      previousHash: graceMs > 0 ? current.hash : null,
      previousHashRootId: graceMs > 0 ? current.hashRootId : null,
      previousUntil: graceMs > 0 ? ctx.now() + graceMs : null,
      generation: current.generation + 1,
    }
    if (!(await ctx.store.tokens.update(next, current))) throw new Failure('conflict')
    const after = { graceSeconds: body.graceSeconds ?? 0, prefix: prefixOf(ctx, next) }
    await record(ctx, { chain: workspaceId, action: 'ROTATE', entity: entity(next), after })
    await announce(ctx, 'workspace', workspaceId)
    return next
  })
  return toIssued(ctx, rotated, value)
}

export async function revokeToken(ctx: Context, path: IdPath): Promise<void> {
  const { token, workspaceId } = await requireManagedToken(ctx, path)
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const current = await ctx.store.tokens.findForChange(token.id, workspaceId)
    // The token was deleted together with its creator's membership.
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
    await record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(current) })
    await announce(ctx, 'workspace', workspaceId)
  })
}

type TokenPlan = Pick<TokenRecord, 'name' | 'type' | 'permission' | 'scope' | 'allowedIps' | 'expiresAt'>

async function issueToken(ctx: Context, access: Access, plan: TokenPlan): Promise<IssuedToken> {
  const workspaceId = access.snapshot.workspace.id
  const value = createBearer(tokenPrefix)
  const root = ctx.keys.keyring.active
  const token: TokenRecord = {
    ...plan,
    id: newId(),
    workspaceId,
    createdBy: ctx.actor.userId,
    serviceAccountId: null,
    prefix: value.slice(0, visiblePrefixLength),
    hash: hashBearer(root, value),
    hashRootId: root.id,
    previousHash: null,
    previousHashRootId: null,
    previousUntil: null,
    generation: 1,
    createdAt: ctx.now(),
    revokedAt: null,
    lastUsedAt: null,
    lastUsedIp: null,
  }
  await inTransaction(ctx, workspaceId, async (ctx) => {
    // Someone who was removed a moment ago must not create a token: it would come to life with their next invite.
    const { snapshot } = await reauthorise(ctx, access, 'token:create')
    requireTokenLife(snapshot.policy, token.expiresAt === null ? null : token.expiresAt - token.createdAt)
    if (!(await ctx.store.tokens.makeRoom(workspaceId, token.createdBy, ctx.now(), maxTokens))) {
      throw new Failure(
        'conflict',
        `You have ${maxTokens.toLocaleString('en')} tokens in this workspace: revoke those that are no longer used.`,
      )
    }
    await ctx.store.tokens.insert(token)
    const { type, permission, scope, allowedIps } = plan
    const after = {
      type,
      permission,
      scope,
      allowedIps,
      expiresAt: maybeIso(plan.expiresAt),
      prefix: prefixOf(ctx, token),
    }
    await record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(token), after })
  })
  return toIssued(ctx, token, value)
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
  if (token.createdBy === ctx.actor.userId) return
  if (!mayManageAll(current)) throw new Failure('notFound')
  const maker = await ctx.store.members.findOfUser(token.createdBy, token.workspaceId)
  if (token.type === 'cli' || (maker?.isOwner && token.permission === 'read-write')) {
    throw new Failure('forbidden', 'Only the creator of this token can rotate it; you can revoke it.')
  }
}

function toIssued(ctx: Context, token: TokenRecord, value: string): IssuedToken {
  const { id, name, permission, scope } = token
  const shown = withTokenWord(value, ctx.config.tokenPrefix)
  return {
    id,
    token: shown,
    name,
    prefix: prefixOf(ctx, token),
    permission,
    scope,
    expiresAt: maybeIso(token.expiresAt),
  }
}

/** Stored with the prefix word that is hashed, shown with the currently configured word. */
const prefixOf = ({ config }: Context, { prefix }: TokenRecord) => withTokenWord(prefix, config.tokenPrefix)

function toToken(ctx: Context, access: Access, token: TokenRecord): Token {
  const noted = ctx.usage.pendingToken(token.id)
  // Another node may have seen the token more recently than this one.
  const isNewer = noted !== undefined && noted.at >= (token.lastUsedAt ?? 0)
  const permission: Permission = token.permission
  return {
    id: token.id,
    name: token.name,
    prefix: prefixOf(ctx, token),
    permission,
    scope: reachedScope(access, token.scope),
    type: token.type,
    isOwner: token.createdBy === ctx.actor.userId,
    createdById: token.createdBy,
    ownerType: 'user',
    ownerId: token.createdBy,
    ownerName: '',
    createdAt: iso(token.createdAt),
    expiresAt: maybeIso(token.expiresAt),
    lastUsedAt: maybeIso(isNewer ? noted.at : token.lastUsedAt),
    lastUsedIp: isNewer ? noted.ip : token.lastUsedIp,
    revokedAt: maybeIso(token.revokedAt),
    allowedIps: [...token.allowedIps],
  }
}
