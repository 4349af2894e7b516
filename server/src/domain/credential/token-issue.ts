/** Creating tokens: of a person, of a command line, and of a service account. */
import type { IdPath, WorkspacePath } from '@coffer/contract/field'
import {
  type IssuedToken,
  longestAdministeringLifetime,
  maxTokens,
  type NewCliToken,
  type NewToken,
} from '@coffer/contract/token'
import { newId } from '../../crypto/id.ts'
import { createBearer, hashBearer, tokenPrefix, withTokenWord } from '../../crypto/token.ts'
import { Failure, invalid } from '../../failure.ts'
import { ownerOf } from '../../store/owner.ts'
import type { TokenRecord } from '../../store/token.ts'
import { type Access, mayManageAll, reauthorise, requireWorkspace } from '../access/access.ts'
import { requireTokenLife } from '../access/policy.ts'
import { hasRoleIn, isScopeWithin, requireScopeWithin } from '../access/scope-grant.ts'
import { requireConfirmation } from '../account/confirmation.ts'
import { checkAddresses } from '../allowed-address.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { holdsRole } from '../grant.ts'
import { requireClearName } from '../new-name.ts'
import { servicePrincipal } from '../principal.ts'
import { requireInWorkspace } from '../secret/choose-environment.ts'
import { dayMs, hourMs, iso, maybeIso } from '../time.ts'
import { inTransaction } from '../transaction.ts'

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
  if (body.mayAdminister) {
    requireAdministrator(access, body)
    await requireConfirmation(ctx, body, { action: 'CREATE', entity: tokenEntity({ id: '', name: body.name }) })
  }
  return issueToken(ctx, access, 'token:create', { ...staticPlan(ctx, body), scope, serviceAccountId: null })
}

function requireAdmin(access: Access): void {
  if (mayManageAll(access)) return
  throw new Failure('forbidden', 'Only an admin with the scope "all" can create a token that may administer.')
}

function requireAdministrator(access: Access, { expiresIn }: Pick<NewToken, 'expiresIn'>): void {
  requireAdmin(access)
  const lifetimeMs = lifetimesMs[expiresIn]
  if (lifetimeMs === null || lifetimeMs > (lifetimesMs[longestAdministeringLifetime] ?? 0)) {
    throw invalid('expiresIn', `a token that may administer lives ${longestAdministeringLifetime} at most.`)
  }
}

export async function createServiceToken(ctx: Context, path: IdPath, body: NewToken): Promise<IssuedToken> {
  const access = await requireWorkspace(ctx, path, 'service:token')
  const account = await ctx.store.serviceAccounts.find(path.id.toLowerCase(), access.snapshot.workspace.id)
  if (!account) throw new Failure('notFound')
  if (body.mayAdminister) {
    throw invalid('mayAdminister', 'the token of a service account never administers: only people answer for that.')
  }
  const { rights } = servicePrincipal(account)
  const ofAccount = { ...access, rights, reach: [rights.member] }
  const scope = requireScopeWithin(access, body.scope)
  if (!isScopeWithin(ofAccount, scope)) {
    throw invalid('scope', `goes beyond the grants of the service account ${account.name}.`)
  }
  if (body.permission === 'read-write' && !hasRoleIn(ofAccount, 'developer', scope)) {
    throw new Failure(
      'forbidden',
      `The service account ${account.name} can only read in this scope: a read-write token needs the role developer there.`,
    )
  }
  const plan = { ...staticPlan(ctx, body), scope, serviceAccountId: account.id }
  return issueToken(ctx, access, 'service:token', plan)
}

type TokenPlan = Pick<
  TokenRecord,
  'name' | 'type' | 'permission' | 'scope' | 'allowedIps' | 'mayAdminister' | 'expiresAt' | 'serviceAccountId'
>

function staticPlan(ctx: Context, body: NewToken): Omit<TokenPlan, 'scope' | 'serviceAccountId'> {
  const lifetimeMs = lifetimesMs[body.expiresIn]
  requireClearName(body.name)
  return {
    name: body.name,
    type: 'static',
    permission: body.permission,
    allowedIps: checkAddresses(body.allowedIps ?? []),
    mayAdminister: body.mayAdminister ?? false,
    expiresAt: lifetimeMs === null ? null : ctx.now() + lifetimeMs,
  }
}

export async function createCliToken(
  ctx: Context,
  path: WorkspacePath,
  body: NewCliToken,
): Promise<{ token: string; expiresAt: string }> {
  const access = await requireWorkspace(ctx, path, 'token:create')
  const { project, environment } = requireInWorkspace(access, body.environmentId, body.project)
  const expiresAt = ctx.now() + cliLifetimeMs
  const { token } = await issueToken(ctx, access, 'token:create', {
    name: `cli ${project.slug}/${environment.name}`,
    type: 'cli',
    permission: 'read',
    scope: { all: false, teams: [], projects: [], environments: [environment.id] },
    allowedIps: [],
    mayAdminister: false,
    expiresAt,
    serviceAccountId: null,
  })
  return { token, expiresAt: iso(expiresAt) }
}

async function issueToken(
  ctx: Context,
  access: Access,
  permission: 'token:create' | 'service:token',
  plan: TokenPlan,
): Promise<IssuedToken> {
  const workspaceId = access.snapshot.workspace.id
  const { value, ...stored } = newValue(ctx)
  const token: TokenRecord = {
    ...plan,
    ...stored,
    id: newId(),
    workspaceId,
    createdBy: ctx.actor.userId,
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
    const current = await reauthorise(ctx, access, permission)
    if (plan.mayAdminister) requireAdmin(current)
    requireTokenLife(current.snapshot.policy, token.expiresAt === null ? null : token.expiresAt - token.createdAt)
    const { serviceAccountId, type, scope, allowedIps } = plan
    if (serviceAccountId !== null && !(await ctx.store.serviceAccounts.find(serviceAccountId, workspaceId))) {
      throw new Failure('notFound')
    }
    await requireTokenRoom(ctx, token)
    await ctx.store.tokens.insert(token)
    const after = {
      type,
      permission: plan.permission,
      scope,
      allowedIps,
      expiresAt: maybeIso(plan.expiresAt),
      prefix: prefixOf(ctx, token),
      ...(plan.mayAdminister && { mayAdminister: true }),
      ...(serviceAccountId !== null && { serviceAccount: serviceAccountId }),
    }
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: tokenEntity(token), after })
  })
  return toIssued(ctx, token, value)
}

/** Call inside the transaction, before the owner gets one more token. */
export async function requireTokenRoom(ctx: WriteContext, token: TokenRecord): Promise<void> {
  if (await ctx.store.tokens.makeRoom(token.workspaceId, ownerOf(token), ctx.now(), maxTokens)) return
  const whose = token.serviceAccountId === null ? 'You have' : 'The service account has'
  const count = maxTokens.toLocaleString('en')
  throw new Failure('conflict', `${whose} ${count} tokens in this workspace: revoke those that are no longer used.`)
}

/** A new token value, and the fields of the record that are stored of it. */
export function newValue({ keys }: Context): Pick<TokenRecord, 'prefix' | 'hash' | 'hashRootId'> & { value: string } {
  const value = createBearer(tokenPrefix)
  const root = keys.keyring.active
  return { value, prefix: value.slice(0, visiblePrefixLength), hash: hashBearer(root, value), hashRootId: root.id }
}

export function toIssued(ctx: Context, token: TokenRecord, value: string): IssuedToken {
  const { id, name, permission, scope, mayAdminister } = token
  const shown = withTokenWord(value, ctx.config.tokenPrefix)
  return {
    id,
    token: shown,
    name,
    prefix: prefixOf(ctx, token),
    permission,
    scope,
    mayAdminister,
    expiresAt: maybeIso(token.expiresAt),
  }
}

/** Stored with the prefix word that is hashed, shown with the currently configured word. */
export const prefixOf = ({ config }: Context, { prefix }: TokenRecord) => withTokenWord(prefix, config.tokenPrefix)

export const tokenEntity = ({ id, name }: { id: string; name: string }) => ({ type: 'token', id, name })
