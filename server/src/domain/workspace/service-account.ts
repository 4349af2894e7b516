/** Service accounts: machines with grants and tokens of their own, which outlive the people who created them. */
import type { DryRunQuery, IdPath, WorkspacePath } from '@coffer/contract/field'
import type { Removal } from '@coffer/contract/member'
import {
  maxServiceAccounts,
  type NewServiceAccount,
  type ServiceAccount,
  type ServiceAccountChange,
} from '@coffer/contract/service-account'
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import type { TokenRecord } from '../../store/token.ts'
import type { ServiceAccount as AccountRecord } from '../../store/workspace/service-account.ts'
import { type Access, reauthorise, requireWorkspace } from '../access/access.ts'
import { requireChangedGrantsWithin, requireGrantsWithin } from '../access/scope-grant.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { isEnded, lastUseOf } from '../credential/token.ts'
import { requireClearName } from '../new-name.ts'
import { iso, maybeIso } from '../time.ts'
import { announce, inTransaction } from '../transaction.ts'
import { grantText, shownGrants } from './member.ts'
import { surveyRemoval } from './removal.ts'

const entity = ({ id, name }: AccountRecord) => ({ type: 'service-account', id, name })

export async function listServiceAccounts(ctx: Context, path: WorkspacePath): Promise<ServiceAccount[]> {
  const { snapshot } = await requireWorkspace(ctx, path, 'service:read')
  const workspaceId = snapshot.workspace.id
  // Reads the store, so that a change made on any node a moment ago is visible here.
  const [{ accounts }, tokens] = await Promise.all([
    ctx.store.serviceAccounts.list(workspaceId),
    ctx.store.tokens.listOfServiceAccounts(workspaceId),
  ])
  const tokensOf = Map.groupBy(tokens, ({ serviceAccountId }) => serviceAccountId)
  return accounts.map((account) => toServiceAccount(ctx, account, tokensOf.get(account.id) ?? []))
}

export async function createServiceAccount(
  ctx: Context,
  path: WorkspacePath,
  { name, grants }: NewServiceAccount,
): Promise<ServiceAccount> {
  const access = await requireWorkspace(ctx, path, 'service:write')
  const workspaceId = access.snapshot.workspace.id
  requireClearName(name)
  const account: AccountRecord = {
    id: newId(),
    workspaceId,
    name,
    grants: requireGrantsWithin(access, { grants }),
    createdBy: ctx.actor.userId,
    createdAt: ctx.now(),
  }
  await inTransaction(ctx, workspaceId, async (ctx) => {
    await reauthorise(ctx, access, 'service:write')
    if ((await ctx.store.serviceAccounts.count(workspaceId)) >= maxServiceAccounts) {
      throw new Failure(
        'conflict',
        `This workspace has ${maxServiceAccounts} service accounts: remove those that are no longer used.`,
      )
    }
    if (!(await ctx.store.serviceAccounts.insert(account))) throw nameTaken(name)
    record(ctx, { chain: workspaceId, action: 'CREATE', entity: entity(account), after: grantText(account) })
    announce(ctx, 'workspace', workspaceId)
  })
  return toServiceAccount(ctx, account, [])
}

export async function updateServiceAccount(
  ctx: Context,
  path: IdPath,
  change: ServiceAccountChange,
): Promise<ServiceAccount & { success: boolean }> {
  const access = await requireWorkspace(ctx, path, 'service:write')
  const workspaceId = access.snapshot.workspace.id
  return inTransaction(ctx, workspaceId, async (ctx) => {
    const account = await requireAccount(ctx, access, path.id)
    const { name = account.name, grants: wanted } = change
    requireClearName(name, account.name)
    const grants = wanted
      ? await requireChangedGrantsWithin(ctx, access, account.grants, { grants: wanted })
      : account.grants
    const changed = { ...account, name, grants }
    if (await ctx.store.serviceAccounts.isNameTaken(changed)) throw nameTaken(name)
    await ctx.store.serviceAccounts.update(changed, ctx.now())
    const details = {
      before: { name: account.name, ...grantText(account) },
      after: { name, ...grantText(changed) },
    }
    record(ctx, { chain: workspaceId, action: 'UPDATE', entity: entity(account), ...details })
    announce(ctx, 'workspace', workspaceId)
    const tokens = await ctx.store.tokens.listOf(account.id, workspaceId)
    return { success: true, ...toServiceAccount(ctx, changed, tokens) }
  })
}

/** Ends its tokens and shares. Its syncs stay, and push no more. */
export async function removeServiceAccount(ctx: Context, path: IdPath, { dryRun }: DryRunQuery): Promise<Removal> {
  const access = await requireWorkspace(ctx, path, 'service:write')
  const workspaceId = access.snapshot.workspace.id
  return inTransaction(ctx, workspaceId, async (ctx) => {
    const account = await requireAccount(ctx, access, path.id)
    const ends = await surveyRemoval(ctx, account.id, workspaceId)
    if (dryRun) return ends
    const tokens = await ctx.store.tokens.removeOf(account.id, workspaceId)
    await ctx.store.serviceAccounts.remove(account.id, workspaceId)
    const details = { before: grantText(account), after: { removed: { tokens, shares: ends.shares } } }
    record(ctx, { chain: workspaceId, action: 'DELETE', entity: entity(account), ...details })
    announce(ctx, 'workspace', workspaceId)
    return ends
  })
}

/** Authorises again and reloads the account, under the workspace lock. */
async function requireAccount(ctx: WriteContext, access: Access, id: string): Promise<AccountRecord> {
  await reauthorise(ctx, access, 'service:write')
  const account = await ctx.store.serviceAccounts.find(id.toLowerCase(), access.snapshot.workspace.id)
  if (!account) throw new Failure('notFound')
  return account
}

const nameTaken = (name: string) =>
  new Failure('conflict', `There is already a service account called "${name}": choose another name.`)

function toServiceAccount(ctx: Context, account: AccountRecord, tokens: readonly TokenRecord[]): ServiceAccount {
  const living = tokens.filter((token) => !isEnded(token, ctx.now()))
  return {
    id: account.id,
    name: account.name,
    ...shownGrants(account),
    createdAt: iso(account.createdAt),
    createdById: account.createdBy,
    tokens: living.length,
    nextExpiryAt: maybeIso(earliest(living.flatMap(({ expiresAt }) => expiresAt ?? []))),
    lastUsedAt: maybeIso(latest(tokens.flatMap((token) => lastUseOf(ctx, token).at ?? []))),
  }
}

const earliest = (times: readonly number[]) => (times.length === 0 ? null : Math.min(...times))
const latest = (times: readonly number[]) => (times.length === 0 ? null : Math.max(...times))
